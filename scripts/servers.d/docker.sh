# shellcheck shell=bash disable=SC2154 # part of scripts/servers
docker_missing() { echo 'not yet'; }
