"""Renders what a terminal would show as a picture: render FILE.svg, with the text and its colours on standard input."""
import html
import io
import pathlib
import re
import sys

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

COLUMNS = 110
# Without the font that rich would load from the network. Any with a fixed width does: each word is drawn to its width.
FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
    <style>
    .{unique_id}-matrix {{
        font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
        font-size: {char_height}px;
        line-height: {line_height}px;
    }}
    {styles}
    </style>
    {chrome}
    <g class="{unique_id}-matrix" transform="translate({terminal_x}, {terminal_y})">
    {matrix}
    </g>
</svg>
"""
# What rich adds for fonts that are too wide, and for the ends of lines.
SUPERFLUOUS = re.compile(r' clip-path="[^"]*"|<text[^>]*>\s*</text>')
SPACE = "&#160;"
# A text that begins or ends with spaces, which some viewers leave out.
SPACED = re.compile(rf'x="([^"]+)" (y="[^"]+") textLength="([^"]+)">((?:{SPACE})*)(.*?)((?:{SPACE})*)</text>')
# The branches of a tree, at the beginning of a line, and what is below them.
BRANCHES = re.compile(r"[│├└─ ]*")
BELOW = str.maketrans("├└─", "│  ")
INDENT = "  "


def wrapped(line):
    """Breaks a line at its spaces. What follows is indented, and the branches go on beside it."""
    branches = BRANCHES.match(line.plain).group()
    below = branches.translate(BELOW) + INDENT
    start = len(branches)
    while len(line) > COLUMNS and (end := line.plain.rfind(" ", start, COLUMNS + 1)) > 0:
        yield line[:end]
        line, start = Text(below) + line[end + 1 :], len(below)
    yield line


def without_spaces(match):
    x, y, length, before, text, after = match.groups()
    spaces = [len(part) // len(SPACE) for part in (before, after)]
    width = float(length) / len(html.unescape(before + text + after))
    x, length = float(x) + spaces[0] * width, float(length) - sum(spaces) * width
    return f'x="{x:.1f}" {y} textLength="{length:.1f}">{text}</text>' if text else "></text>"


target = pathlib.Path(sys.argv[1])
console = Console(record=True, width=COLUMNS, file=io.StringIO())
for line in sys.stdin.read().splitlines():
    for part in wrapped(Text.from_ansi(line)):
        console.print(part)
svg = console.export_svg(title="", theme=SVG_EXPORT_THEME, code_format=FORMAT, unique_id=target.stem)
svg = SUPERFLUOUS.sub("", SPACED.sub(without_spaces, SUPERFLUOUS.sub("", svg))).replace("</text>", "</text>\n")
target.write_text("\n".join(line.strip() for line in svg.splitlines() if line.strip()) + "\n")
print(target.name)
