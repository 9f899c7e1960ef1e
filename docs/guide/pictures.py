#!/usr/bin/env python3
"""Draws the pictures of the guide: writes the SVG files into docs/guide/src/pictures.

With --check it writes nothing, names the files that differ from what it would write, and exits 1 if there are any.
Python 3.9 or later, and its standard library alone.
"""

import sys
from html import escape
from pathlib import Path

OUT = Path(__file__).resolve().parent / "src" / "pictures"
WIDTH = 720
LEFT, RIGHT = 20, 700
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

INK, MUTED, PAGE, EDGE = "#1f2933", "#4a5763", "#fbfcfd", "#c3ccd5"
# Fill and stroke. Blue: held. Amber: in doubt, or given up. Grey: waits, or nothing. Gone: an outline.
BLUE, AMBER, GREY = ("#cfe2f5", "#2b6196"), ("#f9e0b0", "#94600d"), ("#e4e8ec", "#7b8794")
GONE = ("none", "#7b8794")


# Parts of a picture. Each returns a piece of SVG.


def text(x, y, words, size=16, anchor="middle", bold=False, colour=INK):
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{weight}>'
        f"{escape(words)}</text>"
    )


def label(x, y, words):
    """What a row or a column shows: muted, to the right of x, and with a halo over lines that cross it."""
    halo = f' stroke="{PAGE}" stroke-width="8" stroke-linejoin="round" paint-order="stroke"'
    return text(x, y, words, 16, "start", colour=MUTED).replace("<text", f"<text{halo}", 1)


def box(x, y, width, height, lines=(), look=GREY, bold=True):
    """A box with centred lines; the first is bold, unless `bold` is false."""
    fill, stroke = look
    dashes = ' stroke-dasharray="6 5"' if look is GONE else ""
    parts = [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="{fill}" stroke="{stroke}" '
        f'stroke-width="1.5"{dashes}/>'
    ]
    step = 21
    first = y + height / 2 - step * (len(lines) - 1) / 2 + 5.5
    for i, words in enumerate(lines):
        parts.append(text(x + width / 2, round(first + step * i, 1), words, 16, bold=bold and i == 0))
    return "\n".join(parts)


def bar(start, end, y, lines=(), look=GREY, height=48):
    """A stretch of time from x to x, in plain words."""
    return box(start, y, end - start, height, lines, look, bold=False)


def line(x1, y1, x2, y2, colour=INK, dashed=False, arrow=False):
    extra = (' stroke-dasharray="5 5"' if dashed else "") + (' marker-end="url(#tip)"' if arrow else "")
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" stroke-width="2"{extra}/>'


def arrow(x1, y1, x2, y2, dashed=False):
    return line(x1, y1, x2, y2, dashed=dashed, arrow=True)


def cross(x, y, r=8):
    strokes = f"M{x - r} {y - r}L{x + r} {y + r}M{x - r} {y + r}L{x + r} {y - r}"
    return f'<path d="{strokes}" stroke="{AMBER[1]}" stroke-width="3"/>'


def time_line(y):
    return "\n".join([arrow(LEFT, y, RIGHT - 48, y), text(RIGHT, y + 5, "time", anchor="end", colour=MUTED)])


def picture(name, height, title, desc, parts):
    """A whole file. Its own light page makes it readable on dark pages too."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            f'role="img" aria-labelledby="{name}-title {name}-desc" font-family="{FONT}">',
            f'<title id="{name}-title">{escape(title)}</title>',
            f'<desc id="{name}-desc">{escape(desc)}</desc>',
            '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="10" markerHeight="10" '
            f'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L10 5L0 10z" fill="{INK}"/></marker></defs>',
            f'<rect x="1" y="1" width="{WIDTH - 2}" height="{height - 2}" rx="12" fill="{PAGE}" stroke="{EDGE}"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


# The pictures.


def heartbeats(answered, lost_at, top, bottom):
    """Requests down to the servers and answers back up; the last request is lost on its way."""
    parts = []
    for x in answered:
        parts += [arrow(x, top, x, bottom), arrow(x + 14, bottom, x + 14, top)]
    middle = (top + bottom) / 2
    parts += [line(lost_at, top, lost_at, middle - 10, dashed=True), cross(lost_at, middle)]
    return parts


def renewals(answered, end, y):
    """How far the lease reaches after each answer; the last reaches to `end`."""
    parts = []
    for i, x in enumerate(answered):
        until = end - (answered[-1] - x)
        at = y + 11 * i
        parts += [line(x, at, until, at, BLUE[1]), line(until, at - 5, until, at + 5, BLUE[1])]
    return parts


def lease():
    held_until, expired = 455, 595
    answered, lost_at = [60, 125, 190], 255
    parts = [
        f'<rect x="{held_until}" y="34" width="{expired - held_until}" height="356" fill="{AMBER[0]}" '
        f'fill-opacity="0.6"/>',
        line(held_until, 34, held_until, 390, AMBER[1], dashed=True),
        line(expired, 34, expired, 390, AMBER[1], dashed=True),
        text((held_until + expired) / 2, 59, "safety", 17, bold=True),
        text((held_until + expired) / 2, 80, "margin", 17, bold=True),
        label(LEFT, 38, "each answer renews the lease"),
        *renewals(answered, held_until, 56),
        label(LEFT, 116, "the client's clock: is_held()"),
        bar(LEFT, held_until, 126, ["true"], BLUE, 40),
        bar(held_until, RIGHT, 126, ["false"], GREY, 40),
        *heartbeats(answered, lost_at, 170, 238),
        text(lost_at + 20, 209, "connection lost", anchor="start"),
        label(LEFT, 258, "the servers: the session"),
        bar(LEFT, expired, 268, ["open"], BLUE, 40),
        bar(expired, RIGHT, 268, ["expired"], GREY, 40),
        label(LEFT, 336, "the next contender"),
        bar(LEFT, expired, 346, ["waits"], GREY, 40),
        bar(expired, RIGHT, 346, ["holds"], BLUE, 40),
        time_line(412),
        label(LEFT, 446, "ErrorPolicy::Session; not to scale. With ErrorPolicy::Standard"),
        label(LEFT, 468, "is_held() turns false sooner: when the client is Suspended."),
    ]
    return picture(
        "lease",
        488,
        "A lease on a time line",
        "Answered heartbeats renew the lease. Then the connection is lost. At the end of the lease, by the client's "
        "clock, is_held() turns false. Only later the servers expire the session, and the next contender gets the "
        "lock. The time between the two is the safety margin.",
        parts,
    )


def stretches(y, name, rows):
    """A labelled row of stretches of time: (start, end, lines, look)."""
    return [label(LEFT, y, name)] + [bar(a, b, y + 9, lines, look, 50) for a, b, lines, look in rows]


def outage():
    suspended, lost, again = 165, 390, 535
    lease_end = 330
    states = [
        box(LEFT, 20, suspended - LEFT, 50, ["Connected"], BLUE),
        box(suspended, 20, lost - suspended, 50, ["Suspended"], AMBER),
        box(lost, 20, again - lost, 50, ["Lost"], GREY),
        box(again, 20, RIGHT - again, 50, ["Reconnected", "new session"], BLUE),
    ]
    marks = [line(x, 70, x, 430, EDGE, dashed=True) for x in (suspended, lost, again)]
    ended = ["ended"]
    parts = [
        *marks,
        *states,
        *stretches(
            102,
            "a hold, ErrorPolicy::Standard (the default)",
            [
                (LEFT, suspended, ["held"], BLUE),
                (suspended, again, ended, GONE),
                (again, RIGHT, ["acquire again"], GREY),
            ],
        ),
        *stretches(
            191,
            "a hold, ErrorPolicy::Session",
            [
                (LEFT, lease_end, ["held until the", "end of the lease"], BLUE),
                (lease_end, again, ended, GONE),
                (again, RIGHT, ["acquire again"], GREY),
            ],
        ),
        *stretches(
            280,
            "a waiter",
            [
                (LEFT, lost, ["keeps its node and its place in line"], GREY),
                (lost, again, ["its place", "is gone"], GONE),
                (again, RIGHT, ["a new place,", "at the end"], GREY),
            ],
        ),
        *stretches(
            369,
            "a registration",
            [
                (LEFT, lost, ["the servers keep its node"], BLUE),
                (lost, again, ["its node", "is gone"], GONE),
                (again, RIGHT, ["its node is", "created again"], BLUE),
            ],
        ),
        time_line(448),
        label(LEFT, 482, "Reconnected in time: the same session, without Lost. Waiters"),
        label(LEFT, 504, "and registrations keep their nodes; an ended hold stays ended."),
    ]
    return picture(
        "outage",
        524,
        "An outage on a time line",
        "The client is Connected, then Suspended, Lost, and Reconnected with a new session. A hold ends with Suspended "
        "under ErrorPolicy::Standard, and at the end of the lease, before Lost, under ErrorPolicy::Session; in the new "
        "session it has to be acquired again. A waiter keeps its place until the session is lost, and takes a new place "
        "at the end. The servers keep a registration's node until the session is lost; it is created again.",
        parts,
    )


def contender(x, y, number, lines, look):
    return box(x, y, 192, 84, [f"lock-{number:010}", *lines], look)


def contenders():
    first, second, third = 20, 264, 508
    gap_left, gap_right = 212, 456
    above, below = 48, 192
    parts = [
        label(LEFT, 34, "A line: the lowest number holds"),
        contender(first, above, 7, ["holds"], BLUE),
        contender(second, above, 8, ["waits,", "watches 0007"], GREY),
        contender(third, above, 9, ["waits,", "watches 0008"], GREY),
        arrow(second, above + 42, gap_left + 4, above + 42),
        arrow(third, above + 42, gap_right + 4, above + 42),
        label(LEFT, 178, "The holder releases: one deletion wakes one waiter"),
        contender(first, below, 7, ["is deleted"], GONE),
        contender(second, below, 8, ["is woken,", "holds"], BLUE),
        contender(third, below, 9, ["not woken,", "watches 0008"], GREY),
        arrow(gap_left, below + 42, second - 4, below + 42, dashed=True),
        arrow(third, below + 42, gap_right + 4, below + 42),
        label(LEFT, 308, "solid arrow: watches; dashed arrow: the event of the deletion"),
    ]
    return picture(
        "line",
        328,
        "A line of contenders",
        "lock-0000000007 holds, lock-0000000008 watches 0007, and lock-0000000009 watches 0008. When 0007 is deleted, "
        "only 0008 is woken. It holds, and 0009 continues to watch it.",
        parts,
    )


def claim_step(y, words, item, claim):
    """A step: what happens on the left, then the item's node and the claim's."""
    item_lines, item_look = item
    claim_lines, claim_look = claim
    first = y + 45 - 11 * (len(words) - 1)
    parts = [text(LEFT, first + 22 * i, row, 16, "start", bold=i == 0) for i, row in enumerate(words)]
    parts.append(box(254, y, 212, 78, item_lines, item_look))
    parts.append(box(488, y, 212, 78, claim_lines, claim_look))
    return parts


def claim():
    name = "queue-0000000012"
    deleted = [name, "deleted"], GONE

    def item(version):
        return [name, f"data version {version}"], GREY

    parts = [
        label(254, 34, "items, in /orders"),
        label(488, 34, "claims, in /orders-claims"),
        *claim_step(
            48,
            ["1. A claims", "one transaction creates", "the claim and writes", "the item's data again"],
            item(1),
            ([name, "claim of A"], BLUE),
        ),
        *claim_step(148, ["2. A acknowledges", "one transaction", "deletes both"], deleted, deleted),
        line(LEFT, 246, RIGHT, 246, EDGE),
        label(LEFT, 274, "Or, instead of step 2, the process of A crashes:"),
        *claim_step(290, ["3. A's session ends", "the servers delete", "the claim alone"], item(1), deleted),
        *claim_step(
            390, ["4. B claims", "an ack of A is", "refused from now on"], item(2), ([name, "claim of B"], BLUE)
        ),
    ]
    return picture(
        "claim",
        488,
        "The claim of a queue's item",
        "Consumer A claims an item: one transaction creates the claim's ephemeral node and writes the item's data again, "
        "which raises its data version to 1. An ack deletes the item and the claim in one transaction. If the session of "
        "A ends instead, the servers delete the claim alone. Consumer B then claims the item, with data version 2, and "
        "an ack of A is refused.",
        parts,
    )


def shares_step(y, words, parts_of_maximum):
    """Words, and below them a bar that is as long as the maximum."""
    parts = [text(LEFT, y + 22 * i, row, 16, "start", bold=i == 0) for i, row in enumerate(words)]
    x, top = LEFT, y + 22 * (len(words) - 1) + 12
    for name, amount, look in parts_of_maximum:
        width = round((RIGHT - LEFT) * amount / 1000)
        parts.append(box(x, top, width, 44, [name], look, bold=False))
        x += width
    return parts


def shares():
    parts = [
        *shares_step(36, ["1. c1 and c2 share the maximum of 1000"], [("c1: 500", 500, BLUE), ("c2: 500", 500, BLUE)]),
        *shares_step(
            130,
            [
                "2. c3 joins with 0. The leader lowers c1 and c2",
                "Each acknowledges as soon as it applies no more than its new share",
            ],
            [("c1: 333", 333, BLUE), ("c2: 333", 333, BLUE), ("given up: 334", 334, AMBER)],
        ),
        *shares_step(
            246,
            ["3. The leader raises c3", "It gives only what was acknowledged as given up"],
            [("c1: 333", 333, BLUE), ("c2: 333", 333, BLUE), ("c3: 333", 333, BLUE)],
        ),
        label(LEFT, 352, "At no moment may they together apply more than 1000."),
    ]
    return picture(
        "shares",
        374,
        "The shares of a balancer when a member joins",
        "c1 and c2 have 500 each of the maximum of 1000. When c3 joins with 0, the leader first lowers c1 and c2 to 333, "
        "and both acknowledge that they apply no more. Then it raises c3 to 333, by what was acknowledged as given up.",
        parts,
    )


PICTURES = {
    "lease.svg": lease,
    "outage.svg": outage,
    "line.svg": contenders,
    "claim.svg": claim,
    "shares.svg": shares,
}


def differing():
    """Names the files that are not what this script writes."""
    for name, draw in PICTURES.items():
        file = OUT / name
        if not file.is_file() or file.read_bytes() != draw().encode():
            yield name
    for file in sorted(OUT.glob("*")):
        if file.name not in PICTURES:
            yield f"{file.name} (not drawn by this script)"


def main(arguments):
    if arguments == ["--check"]:
        names = list(differing())
        for name in names:
            print(f"differs: {name}")
        return 1 if names else 0
    if arguments:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    OUT.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        (OUT / name).write_bytes(draw().encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
