#!/bin/bash
# Builds a ZooKeeper image with the contract of the official one, for machines that can pull none.
#
#   tests/image/build.sh [IMAGE:TAG]      default: zookeeper:3.9
#
# Everything comes from Debian packages, fetched by this machine's apt from the archive it is set up with:
# ZooKeeper and its jars from $SUITE (default trixie, which has 3.9), a JDK to cut the Java runtime from and a
# shell from this machine's own release. Nothing is installed and no file of apt is changed. Needs Debian, a
# Docker engine and its command line.
set -Eeuo pipefail

image=${1:-zookeeper:3.9}
suite=${SUITE:-trixie}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() { echo "tests/image/build.sh: $1" >&2; exit 1; }
step='start'
# A subshell only ends; the shell above it tells why.
trap '[ "$BASH_SUBSHELL" -gt 0 ] || fail "failed to $step (line $LINENO, see the output above)"; exit 1' ERR

for tool in docker apt-get apt-cache dpkg-deb ldd tar; do
    command -v "$tool" > /dev/null ||
        fail "the command '$tool' is missing: this needs Debian and docker.io (or docker-cli)"
done
docker version > /dev/null 2>&1 || fail 'no Docker engine answers: start dockerd or set DOCKER_HOST'

work=$(mktemp -d "${TMPDIR:-/tmp}/zookeeper-image.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists/partial,cache/archives/partial,state,debs,unpacked,context,rootfs}

# --- Where this machine gets Debian from --------------------------------------------------------------------
step='ask apt for its Debian archive'
# shellcheck disable=SC1091
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
arch=$(dpkg --print-architecture)
archive_of_apt() {
    apt-get "$@" indextargets --format '$(REPO_URI)' \
        'Origin: Debian' "Codename: $release" 'Created-By: Packages' 'Component: main' | sort -u | head -n 1
}
archive=$(archive_of_apt)
if [ -z "$archive" ]; then
    # The lists were never fetched, or were deleted as container images do: fetch them, into our own directory.
    fresh=(-o "Dir::State::lists=$work/lists" -o APT::Sandbox::User=root -o Acquire::Languages=none)
    apt-get -qq "${fresh[@]}" update
    archive=$(archive_of_apt "${fresh[@]}")
fi
[ -n "$archive" ] || fail "apt has no Debian archive for the release '$release' of this machine"

# --- An apt configuration of our own: both suites, nothing installed ----------------------------------------
step="fetch the package lists of $release and $suite"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
printf "deb [signed-by=$keyring] $archive %s main\n" "$release" "$suite" | sort -u > "$work/sources.list"
: > "$work/status"
cat > "$work/apt.conf" <<END
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "$work/state";
Dir::State::lists "$work/lists";
Dir::State::status "$work/status";
Dir::Cache "$work/cache";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
Acquire::Retries "3";
APT::Sandbox::User "root";
END
export APT_CONFIG="$work/apt.conf"
apt-get -qq update

step='download the packages'
jdk=$(apt-cache -o "APT::Default-Release=$release" depends default-jdk-headless |
    grep -oE 'openjdk-[0-9]+-jdk-headless' | head -n 1)
version=${jdk//[!0-9]/}
cd "$work/debs"
# The release matters: the JDK must fit this machine's C library, which goes into the image.
ours=("openjdk-$version-jdk-headless" "openjdk-$version-jre-headless" busybox-static)
theirs=(libzookeeper-java libnetty-java libslf4j-java libsnappy-java libdropwizard-metrics-java
    libcommons-cli-java libcommons-io-java)
apt-get -qq download "${ours[@]/%//$release}" "${theirs[@]/%//$suite}"
step='unpack the packages'
for deb in "$work"/debs/*.deb; do dpkg-deb -x "$deb" "$work/unpacked"; done
unset APT_CONFIG

# --- The root file system -----------------------------------------------------------------------------------
step='cut a Java runtime from the JDK'
root="$work/rootfs"
mkdir -p "$root"/{bin,tmp,etc,conf,data,datalog,logs,root,opt/zookeeper/lib,opt/zookeeper/bin}
chmod 1777 "$root/tmp"
jdk="$work/unpacked/usr/lib/jvm/java-$version-openjdk-$arch"
# Debian keeps the JDK's configuration in /etc behind absolute links, which lead nowhere here.
find "$jdk" -type l -lname "/etc/*" | while read -r link; do
    target="$work/unpacked$(readlink "$link")"
    rm "$link"
    if [ -e "$target" ]; then cp "$target" "$link"; fi
done
modules=java.base,java.logging,java.management,java.naming,java.security.jgss,java.security.sasl,java.xml,jdk.security.jgss
modules+=,jdk.management,jdk.security.auth,jdk.unsupported,jdk.crypto.ec
"$jdk/bin/jlink" --add-modules "$modules" --strip-java-debug-attributes --no-header-files --no-man-pages \
    --generate-cds-archive --output "$root/opt/java" > "$work/jlink.log" 2>&1 ||
    { cat "$work/jlink.log" >&2; false; }

step='collect the jars and the shell'
for jar in zookeeper zookeeper-jute slf4j-api slf4j-simple metrics-core snappy-java commons-cli commons-io \
    netty-buffer netty-common netty-handler netty-transport netty-resolver netty-codec \
    netty-transport-native-epoll netty-transport-native-unix-common; do
    cp -L "$work/unpacked/usr/share/java/$jar.jar" "$root/opt/zookeeper/lib/"
done
busybox=$(find "$work/unpacked" -path '*bin/busybox' -type f | head -n 1)
cp "$busybox" "$root/bin/busybox"
for applet in $("$busybox" --list); do
    [ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
done
# The shared libraries of the Java runtime, at the paths this machine has them.
find "$root/opt/java" -type f \( -name '*.so' -o -path '*/bin/*' \) -exec ldd {} + \
    > "$work/ldd" 2> /dev/null || true # ldd complains about what is no library
grep -oE '(=> )?/[^ ]+\.so[^ ]*' "$work/ldd" | sed 's/=> //' | { grep -v "^$root" || true; } | sort -u |
    while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done
echo 'root:x:0:0:root:/root:/bin/sh' > "$root/etc/passwd"
echo 'root:x:0:' > "$root/etc/group"
echo 'hosts: files dns' > "$root/etc/nsswitch.conf"
install -m 755 "$here/docker-entrypoint.sh" "$root/docker-entrypoint.sh"
install -m 755 "$here/zkServer.sh" "$root/opt/zookeeper/bin/zkServer.sh"

# --- The image ----------------------------------------------------------------------------------------------
step="build the image $image"
tar --numeric-owner --owner=0 --group=0 --sort=name -C "$root" -cf "$work/context/rootfs.tar" .
cp "$here/Dockerfile" "$work/context/"
# The classic builder works without the buildx plugin; where it has been dropped the second form does.
DOCKER_BUILDKIT=0 docker build -q -t "$image" "$work/context" 2> "$work/build.log" ||
    docker build -q -t "$image" "$work/context" ||
    { cat "$work/build.log" >&2; false; }
