# shellcheck shell=bash disable=SC2154 # part of scripts/servers
# The third way: programs from Debian's packages, in .servers/packages/SUITE, entered by chroot.
#
# Inside such a folder: /srv/etc/SERVICE settings, /srv/tls/SERVICE certificates, /srv/data/INSTANCE data folders,
# /srv/run sockets. A folder is finished when it has its last name: it is made under another and renamed.

root_of() { echo "$state/packages/$(suite_of "$(service_of "$1")")"; }
data_of() { echo "$(root_of "$1")/srv/data/$1"; }

# Prints why this way is closed, or fails when it is open.
packages_missing() {
  if [ "$(id -u)" != 0 ]; then
    echo 'needs root'
  elif ! command -v apt-get >/dev/null; then
    echo 'needs apt'
  elif [ -z "$(packages_mirror)" ]; then
    echo "apt's own configuration names no Debian mirror (or set CENOTE_DEBIAN_MIRROR)"
  else
    return 1
  fi
}

# The mirror that the machine's own apt uses: the first that has this release's main component.
packages_mirror() {
  local mirror
  mirror=${CENOTE_DEBIAN_MIRROR:-$(
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-sid}")
    # shellcheck disable=SC2016 # apt fills these in
    apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
      awk -v codename="$codename" '$2 == "main" && $1 ~ "^(" codename "|stable|testing|unstable|sid)$" { print $3; exit }'
  )}
  case $mirror in
    mirror+file:*) awk '!/^#/ && NF { print $1; exit }' "${mirror#mirror+file:}" ;;
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
  set -- chroot --userspec="$user" "$root" /usr/bin/env -i HOME=/ LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    PATH=/usr/lib/postgresql/18/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
  if may_mount; then
    exec unshare --mount --propagation private bash -c '
      for folder in proc dev sys; do mount --rbind "/$folder" "$0/$folder"; done
      exec "$@"' "$root" "$@"
  fi
  exec "$@"
}

inside() { (enter "$@"); }

may_mount() { unshare --mount true 2>/dev/null; }

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
  # shellcheck disable=SC2016
  inside "$suite" root sh -c 'dpkg --configure -a && apt-get -q update && apt-get -qy --fix-broken install &&
    apt-get -qy --no-install-recommends install "$@" && apt-get clean' sh $missing \
    </dev/null >>"$state/log/packages.log" 2>&1 || packages_failed
  printf '%s\n' $missing >>"$root/srv/packages"
}

packages_bootstrap() {
  local suite=$1 new=$state/packages/$1.new
  shift
  command -v mmdebstrap >/dev/null || packages_install mmdebstrap
  say "fetching $* from Debian $suite (once, about a minute)"
  remove_folder "$new"
  mkdir -p "$state/packages"
  # The machine's own way to the mirror (proxies and the like). The suite may be past its date on a mirror that lags.
  { apt-config dump | grep -E '^Acquire::https?::' || true; echo 'Acquire::Check-Valid-Until "false";'; } >"$state/packages/apt.conf"
  # No service may start while packages are set up, and no cluster of Debian's own is wanted.
  # shellcheck disable=SC2016 # $1 is the new folder, for the hook's shell
  set -- mmdebstrap --mode=root --variant=apt --aptopt="$state/packages/apt.conf" --dpkgopt=force-unsafe-io \
    --essential-hook='
      printf "#!/bin/sh\nexit 101\n" >"$1/usr/sbin/policy-rc.d" && chmod 755 "$1/usr/sbin/policy-rc.d"
      mkdir -p "$1/etc/postgresql-common" && echo "create_main_cluster = false" >"$1/etc/postgresql-common/createcluster.conf"' \
    --include="$(echo "$*" | tr ' ' ',')" "$suite" "$new" "$(packages_mirror)"
  if may_mount; then set -- unshare --mount --propagation private "$@"; fi
  "$@" </dev/null >"$state/log/packages.log" 2>&1 || packages_failed
  mkdir -p "$new/srv/data" "$new/srv/etc" "$new/srv/tls" "$new/srv/run" "$new/dev/shm"
  chmod 1777 "$new/srv/run" "$new/dev/shm"
  sed -n 's/^.*--include=//p' <<<"$(printf '%s\n' "$@")" | tr ',' '\n' >"$new/srv/packages"
  remove_folder "$state/packages/$suite"
  mv "$new" "$state/packages/$suite"
}

packages_failed() {
  tail -n 20 "$state/log/packages.log" >&2
  fail "installing packages failed, the whole story is in $state/log/packages.log"
}

# A program that this machine lacks, from its own apt.
packages_install() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || fail "$1 is needed, please install it"
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
    [ "$(user_of "$(service_of "$name")")" != - ] || continue
    if ! packages_running "$name"; then
      packages_prepare "$name"
      claim_port "$name"
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
  packages_kill "$1"
  mkdir -p "$root/srv/etc/$service" "$root/srv/tls/$service"
  cp "$pieces/$service"/* "$root/srv/etc/$service/"
  cp "$state/tls/ca.pem" "$state/tls/server.pem" "$state/tls/server.key" "$root/srv/tls/$service/"
  chmod 600 "$root/srv/tls/$service/server.key"
  # Not every package brings its user.
  # shellcheck disable=SC2016
  inside "$(suite_of "$service")" root sh -ec '
    id "$0" || useradd --system --user-group --home-dir /srv/data --shell /usr/sbin/nologin "$0"
    chown -R "$0:" "$1"' "$(user_of "$service")" "/srv/tls/$service" >/dev/null 2>&1

  # What decides a data folder's contents: another one makes it stale.
  stamp=$(cat "$pieces/$service/init.sql" - <<<"$(packages_of "$service")" | cksum)
  if [ "$(cat "$template.stamp" 2>/dev/null)" != "$stamp" ]; then
    say "making $service's data folder"
    rm -f "$template.stamp"
    end_processes "$service.template" KILL
    remove_folder "$template"
    "${service}_template" "/srv/data/$service.template" >>"$state/log/$service.template.log" 2>&1 </dev/null ||
      fail "making $service's data folder failed, see $state/log/$service.template.log"
    end_processes "$service.template" KILL
    echo "$stamp" >"$template.stamp"
  fi
  if [ "$(cat "$data.stamp" 2>/dev/null)" != "$stamp" ]; then
    rm -f "$data.stamp"
    remove_folder "$data"
    cp -a --reflink=auto "$template" "$data"
    echo "$stamp" >"$data.stamp"
  fi
}

packages_remove() {
  packages_kill "$1"
  remove_folder "$(data_of "$1")"
  rm -f "$(data_of "$1").stamp"
}

# Processes of an instance: those that live in its package folder with its data folder as working folder, as these servers
# do. Found so rather than by a pid file alone, because a pid file outlives its process, and backends outlive a killed server.
pids_of() {
  local root data process
  root=$(root_of "$1")
  data=$(data_of "$1")
  [ -d "$data" ] || return 0
  for process in /proc/[0-9]*; do
    if [ "$process/cwd" -ef "$data" ] && [ "$process/root" -ef "$root" ]; then echo "${process#/proc/}"; fi
  done
}

packages_running() { [ -n "$(pids_of "$1")" ] && "$(service_of "$1")_ready" "$1"; }

packages_start() {
  local service suite root pid waited=0
  service=$(service_of "$1")
  suite=$(suite_of "$service")
  root=$(root_of "$1")
  if packages_running "$1"; then return; fi
  # Nobody serves, so whoever is left is an orphan, and so are lock and pid files.
  packages_kill "$1"
  rm -f "$(data_of "$1")"/*.pid "$root/srv/run/.s.PGSQL.$(port_of "$1")"*  "$root/srv/run/$1".*
  # shellcheck disable=SC2046 # a command's words, without spaces in them
  launch "$1" "$suite" "$(user_of "$service")" $("${service}_command" "$1")
  pid=$(cat "$state/instances/$1/pid")
  until "${service}_ready" "$1"; do
    if ! kill -0 "$pid" 2>/dev/null || [ "$waited" -ge 1200 ]; then
      tail -n 10 "$state/log/$1.log" >&2
      fail "$1 did not start, see $state/log/$1.log"
    fi
    sleep 0.05
    waited=$((waited + 1))
  done
}

# launch INSTANCE SUITE USER COMMAND...: a server that outlives this script and holds none of its open files, so that
# a caller behind a pipe sees the end of it.
launch() {
  local name=$1 descriptor
  shift
  (
    for descriptor in /proc/self/fd/*; do
      descriptor=${descriptor##*/}
      [ "$descriptor" -le 2 ] || eval "exec $descriptor>&-"
    done
    trap '' HUP
    enter "$@"
  ) </dev/null >"$state/log/$name.log" 2>&1 &
  echo $! >"$state/instances/$name/pid"
}

# end_processes INSTANCE SIGNAL: the signal to its main process (KILL: to each), then waits until all are gone.
end_processes() {
  local pids main waited=0
  pids=$(pids_of "$1")
  [ -n "$pids" ] || return 0
  main=$(cat "$state/instances/$1/pid" 2>/dev/null || true)
  if [ "$2" = KILL ] || ! grep -qx "$main" <<<"$pids"; then main=$pids; fi
  # shellcheck disable=SC2086 # several pids
  kill -s "$2" $main 2>/dev/null || true
  until [ -z "$(pids_of "$1")" ]; do
    sleep 0.05
    waited=$((waited + 1))
    # Ten seconds are ample with nothing to make durable; and a process forked meanwhile needs the signal too.
    # shellcheck disable=SC2046
    if [ "$2" = KILL ] || [ "$waited" -ge 200 ]; then kill -s KILL $(pids_of "$1") 2>/dev/null || true; fi
  done
}

packages_stop() { end_processes "$1" "$(stop_signal_of "$(service_of "$1")")"; }
packages_kill() { end_processes "$1" KILL; }
packages_down() { packages_stop "$1"; }
