# shellcheck shell=bash disable=SC2154 # part of scripts/servers
# The servers of the package way as processes: started, found again and ended.

packages_start() {
  local service suite root data pid waited=0
  service=$(service_of "$1")
  suite=$(suite_of "$service")
  root=$(root_of "$1")
  data=$(data_of "$1")
  if packages_running "$1"; then return; fi
  # Nobody serves, so whoever is left is an orphan, and so are pid, lock and socket files.
  packages_kill "$1"
  rm -f "$data"/*.pid "$root/srv/run/.s.PGSQL.$(port_of "$1")"* "$root/srv/run/$1".*
  # shellcheck disable=SC2046 # a command's words, without spaces in them
  launch "$1" "$suite" "$(user_of "$service")" $("${service}_command" "$1")
  pid=$(cat "$state/instances/$1/pid")
  until "${service}_ready" "$1"; do
    # A minute and more: after SIGKILL there may be much to recover.
    if ! kill -0 "$pid" 2>/dev/null || [ "$waited" -ge 1200 ]; then
      tail -n 10 "$state/log/$1.log" >&2
      fail "$1 did not start, see $state/log/$1.log"
    fi
    sleep 0.05
    waited=$((waited + 1))
  done
}

# launch INSTANCE SUITE USER COMMAND...: a server that outlives this script, hears no Ctrl-C of its terminal, and holds
# none of its open files, so that a caller behind a pipe sees the end of it.
launch() {
  local name=$1 suite=$2 user=$3 descriptor
  shift 3
  (
    for descriptor in /proc/self/fd/*; do
      descriptor=${descriptor##*/}
      [ "$descriptor" -le 2 ] || eval "exec $descriptor>&-"
    done
    enter "$suite" "$user" setsid "$@"
  ) </dev/null >>"$state/log/$name.log" 2>&1 &
  echo $! >"$state/instances/$name/pid"
}

# processes_in ROOT [DATA]: those that live in a package folder, and with DATA as their working folder, as these servers do.
# An instance's are found so, and not by a pid file alone: that outlives its process, and backends outlive a killed server.
processes_in() {
  local owner
  [ -d "$1" ] && [ -d "${2:-$1}" ] || return 0
  owner=$(stat --format '+%u:+%g' "${2:-$1}")
  # Where root may not look into other users' processes (an ordinary container), their own user may.
  for owner in +0:+0 "$owner"; do
    chroot --userspec="$owner" / stat --dereference --format '%n %d:%i' /proc/[0-9]*/root /proc/[0-9]*/cwd 2>/dev/null || true
  done |
    awk -F '[/ ]' -v root="$(stat --format %d:%i "$1")" -v data="$([ $# -lt 2 ] || stat --format %d:%i "$2")" '
      $4 == "root" && $5 == root { inside[$3] = 1 }
      $4 == "cwd" && (data == "" || $5 == data) && $3 in inside && !seen[$3]++ { print $3 }'
}

processes_of() { processes_in "$(root_of "$1")" "$(data_of "$1")"; }

# The process that was started, while it lives: others of the instance may outlive it.
main_process_of() {
  local main
  main=$(cat "$state/instances/$1/pid" 2>/dev/null || echo none)
  processes_of "$1" | grep -x "$main" || true
}

packages_running() {
  if is_server "$1"; then
    [ -n "$(main_process_of "$1")" ] && "$(service_of "$1")_ready" "$1"
  else
    [ -e "$(root_of "$1")/srv/packages" ]
  fi
}

# The clean stop: a signal to the server's main process, which sees to the others. Ten seconds are ample with nothing to make
# durable.
packages_stop() {
  local main waited=0
  main=$(main_process_of "$1")
  if [ -n "$main" ]; then
    kill -s "$(stop_signal_of "$(service_of "$1")")" "$main" || true
    until [ -z "$(processes_of "$1")" ] || [ "$waited" -ge 200 ]; do
      sleep 0.05
      waited=$((waited + 1))
    done
  fi
  packages_kill "$1"
}

packages_kill() { kill_all processes_of "$1"; }

# kill_all LISTER ARGUMENTS...: SIGKILL to what the lister prints, until it prints nothing.
kill_all() {
  local pids
  while pids=$("$@") && [ -n "$pids" ]; do
    # shellcheck disable=SC2086 # several pids
    kill -s KILL $pids 2>/dev/null || true
    sleep 0.02
  done
}

packages_down() {
  packages_stop "$1"
  case $1 in *-*) remove_folder "$(data_of "$1")" && rm -f "$(data_of "$1").stamp" ;; esac
}
