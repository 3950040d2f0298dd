# shellcheck shell=bash disable=SC2154 # part of scripts/servers
# The second way: docker-compose.yml. Each instance is a compose project of its own, so a private server is just another.

docker_has() { grep -q "^  $(service_of "$1"):" "$project/docker-compose.yml"; }

# Prints why this way is closed, or fails when it is open.
docker_missing() {
  if ! command -v docker >/dev/null; then
    echo 'no docker command'
  elif ! docker_quickly version --format '{{.Server.Version}}' >/dev/null; then
    echo 'no Docker engine answers'
  elif [ -z "$(docker_compose_command)" ]; then
    echo 'neither "docker compose" nor "docker-compose" is there'
  else
    return 1
  fi
}

# A client whose engine is gone may wait for ever.
docker_quickly() { within 5 docker "$@" </dev/null 2>/dev/null; }

docker_compose_command() {
  if docker_quickly compose version >/dev/null; then
    echo docker compose
  elif command -v docker-compose >/dev/null; then
    echo docker-compose
  fi
}

# docker_compose INSTANCE ARGUMENTS...
docker_compose() {
  local name=$1 port
  port=$(port_of "$name")
  shift
  # shellcheck disable=SC2046 # the command may be two words
  CENOTE_POSTGRES_PORT=$port CENOTE_MYSQL_PORT=$port CENOTE_MARIADB_PORT=$port \
    $(docker_compose_command) -p "cenote-$(checkout_number)-$name" -f "$project/docker-compose.yml" "$@" </dev/null >&2
}

docker_container() {
  docker_quickly ps --all --quiet \
    --filter "label=com.docker.compose.project=cenote-$(checkout_number)-$1" \
    --filter "label=com.docker.compose.service=$(service_of "$1")"
}

docker_health() {
  local container
  container=$(docker_container "$1")
  if [ -n "$container" ]; then docker_quickly inspect --format '{{.State.Status}} {{.State.Health.Status}}' "$container"; fi
}

docker_running() { [ "$(docker_health "$1")" = 'running healthy' ]; }

docker_up() {
  local name
  for name in "$@"; do
    # Written down first: whatever a killed run left, `down` finds.
    echo docker >"$state/instances/$name/way"
    # Nothing is kept from an earlier run, which may have ended in the middle of setting up.
    docker_compose "$name" down --volumes
    claim_port "$name"
    docker_start "$name" || { docker_down "$name"; rm -f "$state/instances/$name/way"; fail "$name did not start in Docker"; }
  done
}

docker_start() {
  local service waited=0
  service=$(service_of "$1")
  if $(docker_compose_command) up --help 2>/dev/null </dev/null | grep -q -- '--wait'; then
    docker_compose "$1" up --detach --wait "$service" && return
  else
    # docker-compose 1 cannot wait.
    docker_compose "$1" up --detach "$service" || return
    until docker_running "$1"; do
      case $(docker_health "$1") in
        'running '*) [ "$waited" -lt 120 ] || break ;;
        *) break ;;
      esac
      sleep 1
      waited=$((waited + 1))
    done
    docker_running "$1" && return
  fi
  docker_compose "$1" logs --tail 20 "$service" || true
  return 1
}

docker_stop() { docker_compose "$1" stop --timeout 10 "$(service_of "$1")"; }
docker_kill() { docker_compose "$1" kill -s KILL "$(service_of "$1")" && docker wait "$(docker_container "$1")" >/dev/null; }
docker_down() { docker_compose "$1" down --volumes; }
