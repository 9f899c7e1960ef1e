# What tests/mutants/run and tests/mutants/refresh share. Sourced from the root of the repository.

# The object stores of this repository: its own, and those that it borrows from.
object_store() { realpath "$(git rev-parse --git-path objects)"; }

# Copies the tree (what git tracks, and what it does not ignore, without the mutants) to a directory, as a git repository of
# its own with one commit. It borrows the blobs of the real one, which `git apply --3way` needs.
copy_tree() {
    local copy=$1 objects
    objects=$(object_store)
    rm -rf "$copy"
    mkdir -p "$copy"
    git ls-files -z --cached --others --exclude-standard -- ':!tests/mutants' |
        while IFS= read -r -d '' file; do [ -e "$file" ] && printf '%s\0' "$file"; done |
        tar --create --null --files-from=- | tar --extract --directory="$copy"
    git init -q "$copy"
    echo "$objects" >"$copy/.git/objects/info/alternates"
    git -C "$copy" config core.hooksPath /dev/null
    git -C "$copy" config gc.auto 0
    git -C "$copy" add --all --force
    git -C "$copy" -c user.name=mutants -c user.email=mutants@localhost -c commit.gpgsign=false commit -q -m "the tree"
}

# Takes back what a patch has done to a copy. A file that it touched is new again, so that cargo builds it again.
take_back() {
    git -C "$1" reset -q --hard
    git -C "$1" clean -fdq
}

# The lines of a patch above its diff, and the diff.
head_of() { sed '/^diff --git /,$d' "$1"; }
diff_of() { sed -n '/^diff --git /,$p' "$1"; }

# What a patch says of itself: its bug, or how many seeds are to be enough.
header() { head_of "$1" | sed -n "s/^$2: //p" | head -n 1; }

# The files that a patch touches.
touched() { sed -n 's|^+++ b/||p; s|^--- a/||p' "$1" | sort -u; }
