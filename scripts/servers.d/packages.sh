# shellcheck shell=bash disable=SC2154 # part of scripts/servers
# The third way: programs from Debian's packages, in .servers/packages/SUITE, entered by chroot.
#
# Inside such a folder: /srv/etc/SERVICE settings, /srv/tls/SERVICE certificates, /srv/data/INSTANCE data folders,
# /srv/run sockets. A folder is finished when it has its last name: it is made under another and renamed.

root_of() { echo "$state/packages/$(suite_of "$(service_of "$1")")"; }
data_of() { echo "$(root_of "$1")/srv/data/$1"; }

socket_link() { echo "/tmp/cenote-$(checkout_number)"; }

# Where an instance's sockets are. A socket's path has at most 107 bytes, and a URL takes no odd characters: a link is
# used where the checkout's own path is too deep or has such.
socket_folder() {
  local folder link
  folder=$(root_of "$1")/srv/run
  link=$(socket_link)
  case $folder in
    *[!A-Za-z0-9/._-]*) ;;
    *) [ ${#folder} -gt 60 ] || { echo "$folder"; return; } ;;
  esac
  [ "$link" -ef "$folder" ] || ln -sfn "$folder" "$link" || link=$folder
  echo "$link"
}

packages_has() { true; }

# Prints why this way is closed, or fails when it is open.
packages_missing() {
  if [ "$(id -u)" != 0 ]; then
    echo 'needs root'
  elif ! command -v apt-get >/dev/null; then
    echo 'needs apt'
  elif [ -z "$(packages_mirror)" ]; then
    echo "apt's own configuration names no Debian mirror; set CENOTE_DEBIAN_MIRROR to one"
  else
    return 1
  fi
}

# The mirror that the machine's own apt uses: the first with this release's main component. Those of Debian's relatives do
# not have what is needed here.
packages_mirror() {
  local mirror=${CENOTE_DEBIAN_MIRROR:-} codename
  # shellcheck source=/dev/null
  codename=$(. /etc/os-release && [ "$ID" = debian ] && echo "${VERSION_CODENAME:-sid}") || codename=''
  if [ -z "$mirror" ] && [ -n "$codename" ]; then
    # shellcheck disable=SC2016 # apt fills these in
    mirror=$(apt-get indextargets --no-release-info --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
      awk -v releases="^($codename|stable|testing|unstable|sid)\$" '$1 ~ releases && $2 == "main" && !seen++ { print $3 }')
  fi
  case $mirror in
    mirror+file:*) awk '!/^#/ && NF && !seen++ { print $1 }' "${mirror#mirror+file:}" ;;
    *) echo "$mirror" ;;
  esac
}

# enter SUITE USER COMMAND...: becomes a command in a package folder.
#
# /proc, /dev and /sys are mounted in a mount namespace of the command's own. They are gone with the last process in it:
# nothing has to be unmounted, and removing the folder never reaches the machine's devices. Where mounting is not allowed
# (an ordinary container) the folder's own few devices do.
enter() {
  local root=$state/packages/$1 user=$2
  shift 2
  # With the user alone, chroot would take the group that this user has outside.
  set -- chroot --userspec="$user:$user" "$root" /usr/bin/env -i HOME=/ LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    PATH=/usr/lib/postgresql/18/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
  if may_mount; then
    # shellcheck disable=SC2016
    exec unshare --mount --propagation private bash -c '
      for folder in proc dev sys; do mount --rbind "/$folder" "$0/$folder"; done
      exec "$@"' "$root" "$@"
  fi
  exec "$@"
}

inside() { (enter "$@"); }

may_mount() { unshare --mount --propagation private mount --rbind /proc /proc 2>/dev/null; }

# packages_ensure SUITE PACKAGES...: the folder is there and has these packages.
packages_ensure() {
  local suite=$1 root=$state/packages/$1 name missing=''
  shift
  [ -e "$root/srv/packages" ] || packages_bootstrap "$suite" "$@"
  for name in "$@"; do grep -qx "$name" "$root/srv/packages" || missing="$missing $name"; done
  [ -n "$missing" ] || return 0
  say "adding packages:$missing"
  cat /etc/resolv.conf >"$root/etc/resolv.conf"
  # What a killed run left half done is finished first.
  # shellcheck disable=SC2016,SC2086 # package names have no spaces
  inside "$suite" root sh -c 'dpkg --configure -a && apt-get -q update && apt-get -qy --fix-broken install &&
    apt-get -qy --no-install-recommends install "$@" && apt-get clean' sh $missing \
    </dev/null >>"$state/log/packages.log" 2>&1 && echo "$missing" | xargs -n 1 >>"$root/srv/packages" && return
  # A folder that has grown too old, or was spoilt: a new one costs a minute, and its data.
  say "that failed, making the folder anew"
  # shellcheck disable=SC2046,SC2086
  packages_bootstrap "$suite" $(cat "$root/srv/packages") $missing
}

packages_bootstrap() {
  local suite=$1 root=$state/packages/$1 new=$state/packages/$1.new packages mirror
  shift
  packages=$*
  command -v mmdebstrap >/dev/null || packages_install mmdebstrap
  say "fetching $packages from Debian $suite (once, about a minute)"
  remove_folder "$new"
  mkdir -p "$state/packages"
  mirror=$(packages_mirror)
  # The machine's own way to the mirror (proxies and the like). The suite may be past its date on a mirror that lags.
  {
    apt-config dump | grep -E '^Acquire::https?::' || true
    echo 'Acquire::Check-Valid-Until "false"; Acquire::Retries "3";'
  } >"$state/packages/apt.conf"
  # Nothing may start while packages are set up, no cluster of Debian's own is wanted, and systemd's files for a boot are
  # neither: its program for them insists on /proc.
  # shellcheck disable=SC2016 # $1 is the new folder, for the hook's shell
  set -- mmdebstrap --mode=root --variant=apt --aptopt="$state/packages/apt.conf" --dpkgopt=force-unsafe-io \
    --essential-hook='
      cd "$1"
      printf "#!/bin/sh\nexit 101\n" >usr/sbin/policy-rc.d
      chmod 755 usr/sbin/policy-rc.d
      chroot . dpkg-divert --local --no-rename --add /usr/bin/systemd-tmpfiles
      ln -s true usr/bin/systemd-tmpfiles
      mkdir -p etc/postgresql-common
      echo "create_main_cluster = false" >etc/postgresql-common/createcluster.conf' \
    --include="${packages// /,}" "$suite" "$new" "$mirror"
  if may_mount; then set -- unshare --mount --propagation private "$@"; fi
  "$@" </dev/null >"$state/log/packages.log" 2>&1 || packages_failed
  mkdir -p "$new/srv/data" "$new/srv/etc" "$new/srv/tls" "$new/srv/run" "$new/dev/shm"
  chmod 1777 "$new/srv/run" "$new/dev/shm"
  xargs -n 1 <<<"$packages" >"$new/srv/packages"
  kill_all processes_in "$root"
  remove_folder "$root"
  mv "$new" "$root"
}

packages_failed() {
  tail -n 20 "$state/log/packages.log" >&2
  fail "installing packages failed, the whole story is in $state/log/packages.log"
}

# A program that this machine lacks, from its own apt.
packages_install() {
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then fail "$1 is needed, please install it"; fi
  say "installing $1"
  DEBIAN_FRONTEND=noninteractive apt-get -qy install "$1" </dev/null >"$state/log/apt.log" 2>&1 ||
    { apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -qy install "$1"; } </dev/null >>"$state/log/apt.log" 2>&1 ||
    { tail -n 5 "$state/log/apt.log" >&2; fail "could not install $1"; }
}

remove_folder() {
  [ ! -e "$1" ] || rm -rf --one-file-system "${1:?}"
}

packages_up() {
  local name suite
  for suite in $(for name in "$@"; do suite_of "$(service_of "$name")"; done | sort -u); do
    # shellcheck disable=SC2046 # package names have no spaces
    packages_ensure "$suite" $(for name in "$@"; do
      [ "$(suite_of "$(service_of "$name")")" != "$suite" ] || packages_of "$(service_of "$name")"
    done)
  done
  for name in "$@"; do
    if is_server "$name"; then
      packages_stop "$name"
      packages_prepare "$name"
      claim_port "$name"
      : >"$state/log/$name.log"
      packages_start "$name"
    fi
    echo packages >"$state/instances/$name/way"
  done
}

# Settings and certificates as they are now, and a data folder: a copy of the service's template.
packages_prepare() {
  local service root data template stamp
  service=$(service_of "$1")
  root=$(root_of "$1")
  data=$(data_of "$1")
  template=$root/srv/data/$service.template
  mkdir -p "$root/srv/etc/$service" "$root/srv/tls/$service"
  cp "$pieces/$service"/* "$root/srv/etc/$service/"
  cp "$state/tls/ca.pem" "$state/tls/server.pem" "$state/tls/server.key" "$root/srv/tls/$service/"
  # Not every package brings its user.
  # shellcheck disable=SC2016
  inside "$(suite_of "$service")" root sh -ec '
    id "$0" || useradd --system --user-group --home-dir /srv/data --shell /usr/sbin/nologin "$0"
    chown -R "$0:" "/srv/tls/$1" && chmod 600 "/srv/tls/$1/server.key"
    chmod -R a+rX "/srv/etc/$1"' "$(user_of "$service")" "$service" >/dev/null 2>&1

  # What decides a data folder's contents: with another of these it is stale.
  stamp=$(cat "$pieces/$service/init.sql" - <<<"$(packages_of "$service")" | cksum)
  if [ "$(cat "$template.stamp" 2>/dev/null)" != "$stamp" ]; then
    say "making $service's data folder"
    rm -f "$template.stamp"
    packages_kill "$service.template"
    remove_folder "$template"
    "${service}_template" "/srv/data/$service.template" </dev/null >"$state/log/$service.template.log" 2>&1 ||
      fail "making $service's data folder failed, see $state/log/$service.template.log"
    echo "$stamp" >"$template.stamp"
  fi
  if [ "$(cat "$data.stamp" 2>/dev/null)" != "$stamp" ]; then
    rm -f "$data.stamp"
    remove_folder "$data"
    cp -a --reflink=auto "$template" "$data"
    echo "$stamp" >"$data.stamp"
  fi
}
