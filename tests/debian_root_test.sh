#!/usr/bin/env bash
# debian_root_test.sh BUILD SOURCE SUITE [DIST]: installs, upgrades and purges the Debian package in a fresh root of that
# suite, and unpacks the tarball there; both train a small model and translate with it. DIST holds the packages; without
# it they are made. Needs root, debootstrap and a mirror ($DEBIAN_MIRROR). Exit code 77: skipped, because one is missing.
set -euo pipefail
build=$1 source=$2 suite=$3 dist=${4:-}
skip() { echo "skipped: $1"; exit 77; }
[ "$(id -u)" = 0 ] || skip "no root, who makes a Debian root"
for tool in debootstrap patchelf dpkg-deb xz; do command -v "$tool" >/dev/null || skip "no $tool"; done
work=$(mktemp -d)
root=$work/root
# Nothing outside is mounted into the root but the kernel's own /proc, read only, which goes before the root does.
clean() {
  if mountpoint -q "$root/proc"; then umount "$root/proc"; fi
  mountpoint -q "$root/proc" || rm -rf --one-file-system "$work"
}
trap clean EXIT
if [ -z "$dist" ]; then
  dist=$work/dist
  python3 "$source/packaging/make_package.py" "$build" "$dist" --fast
fi
package=$(ls "$dist"/fovea_*.deb)
debootstrap --variant=minbase "$suite" "$root" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" >"$work/log" 2>&1 ||
  skip "debootstrap cannot make a root of $suite: $(tail -1 "$work/log")"
mount -t proc -o ro proc "$root/proc"
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp "$@"; }

# A newer package out of the same tree.
dpkg-deb -R "$package" "$work/newer"
sed -i 's/^Version: .*/Version: 999.0/' "$work/newer/DEBIAN/control"
dpkg-deb --root-owner-group -Znone --build "$work/newer" "$root/tmp/newer.deb" >/dev/null
cp "$package" "$root/tmp/fovea.deb"
cat >"$root/tmp/try.sh" <<'TRY'
set -eu
cd "$(mktemp -d)"
"$1" version
"$1" corpus --generate 600 --valid 20 --test 20 --languages en de --output corpus --quiet
"$1" vocab --train-sets corpus/train.en corpus/train.de --dim-vocabs 200 --output joint.spm --quiet
"$1" train --model run --train-sets corpus/train.en corpus/train.de --vocabs joint.spm joint.spm --dim-emb 16 --enc-depth 1 \
     --dec-depth 1 --transformer-heads 2 --transformer-dim-ffn 32 --attention 'topk(4)' --after-batches 5 --quiet
[ "$("$1" translate --model run --quiet <corpus/test.en | wc -l)" = 20 ]
TRY
inside dpkg -i /tmp/fovea.deb
inside sh /tmp/try.sh /usr/bin/fovea
inside dpkg -i /tmp/newer.deb
[ "$(inside dpkg-query -W -f '${Version}' fovea)" = 999.0 ]
inside sh /tmp/try.sh /usr/bin/fovea
inside dpkg -P fovea
left=$(find "$root/usr" "$root/etc" "$root/var/lib/dpkg/info" -iname '*fovea*')
[ -z "$left" ] || { echo "left by the purge: $left" >&2; exit 1; }

mkdir "$root/opt/fovea"
tar -C "$root/opt/fovea" -xf "$dist"/fovea-*.tar.xz
program=$(cd "$root" && echo opt/fovea/*/bin/fovea)
chroot --userspec=nobody:nogroup "$root" env -i PATH=/usr/bin:/bin HOME=/tmp sh /tmp/try.sh "/$program"
