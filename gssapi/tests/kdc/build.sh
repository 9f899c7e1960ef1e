#!/bin/bash
# Builds an image with MIT's key distribution center for the tests of Kerberos.
#
#   gssapi/tests/kdc/build.sh [IMAGE:TAG]      default: zookeeper-recipes-kdc:1
#
# Everything comes from the packages of this machine's Debian, fetched by its apt. Nothing is installed and no file of apt is
# changed. Needs Debian, a Docker engine and its command line.
set -Eeuo pipefail

image=${1:-zookeeper-recipes-kdc:1}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() { echo "gssapi/tests/kdc/build.sh: $1" >&2; exit 1; }
step='start'
trap '[ "$BASH_SUBSHELL" -gt 0 ] || fail "failed to $step (line $LINENO, see the output above)"; exit 1' ERR

for tool in docker apt-get dpkg-deb tar; do
    command -v "$tool" > /dev/null || fail "the command '$tool' is missing: this needs Debian and docker.io"
done
docker version > /dev/null 2>&1 || fail 'no Docker engine answers: start dockerd or set DOCKER_HOST'

work=$(mktemp -d "${TMPDIR:-/tmp}/kdc-image.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{debs,rootfs,context}
cd "$work/debs"

step='download the packages'
# Another user, for whom apt drops its privileges, cannot write here.
apt=(-qq -o APT::Sandbox::User=root)
if ! apt-cache show krb5-kdc > /dev/null 2>&1; then
    # The lists were never fetched, or were deleted as container images do: fetch them, into our own directory.
    mkdir -p "$work/lists/partial"
    apt+=(-o Dir::State::lists="$work/lists" -o Acquire::Languages=none)
    apt-get "${apt[@]}" update
fi
# With an empty list of what is installed, apt names all that the programs link, as this release calls it.
: > "$work/status"
mapfile -t packages < <(apt-get "${apt[@]}" --simulate --no-install-recommends -o Dir::State::status="$work/status" install \
    krb5-kdc krb5-admin-server krb5-user libfaketime busybox-static | awk '$1 == "Inst" { print $2 }')
[ "${#packages[@]}" -gt 0 ] || false
apt-get "${apt[@]}" download "${packages[@]}"

step='unpack the packages'
root="$work/rootfs"
# Where Debian has these directories as links.
mkdir -p "$root"/{usr/bin,usr/sbin,usr/lib,usr/lib64,tmp,etc,var/lib/krb5kdc}
for name in bin sbin lib lib64; do ln -s "usr/$name" "$root/$name"; done
chmod 1777 "$root/tmp"
for deb in *.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$root"; done
rm -rf "$root"/usr/share "$root"/usr/lib/*/perl* "$root"/usr/bin/perl*
for applet in $("$root/bin/busybox" --list); do
    [ -e "$root/usr/bin/$applet" ] || [ "$applet" = busybox ] || ln -s busybox "$root/usr/bin/$applet"
done
echo 'root:x:0:0:root:/root:/bin/sh' > "$root/etc/passwd"
install -m 755 "$here/start" "$root/start"

step="build the image $image"
tar --numeric-owner --owner=0 --group=0 --sort=name -C "$root" -cf "$work/context/rootfs.tar" .
cp "$here/Dockerfile" "$work/context/"
# The classic builder works without the buildx plugin; where it has been dropped the second form does.
DOCKER_BUILDKIT=0 docker build -q -t "$image" "$work/context" 2> "$work/build.log" ||
    docker build -q -t "$image" "$work/context" ||
    { cat "$work/build.log" >&2; false; }
