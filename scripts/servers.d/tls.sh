# shellcheck shell=bash disable=SC2154 # part of scripts/servers
# A certificate authority for tests, in .servers/tls: ca.pem; server.pem and .key for localhost and 127.0.0.1; client.pem and
# .key for the user cenote_cert. Ten years, since nothing but these servers trusts it.

tls_make() {
  local folder=$state/tls new=$state/tls.new
  [ ! -d "$folder" ] || return 0
  command -v openssl >/dev/null || packages_install openssl
  rm -rf "$new"
  mkdir -p "$new"
  (
    umask 077
    cd "$new"
    cat >ca.conf <<'END'
[req]
distinguished_name = name
prompt = no
[name]
CN = cenote test authority
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, IP:127.0.0.1, IP:::1
[client]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
END
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -sha256 -days 3650 -config ca.conf -extensions authority -keyout ca.key -out ca.pem
    tls_issue server localhost
    tls_issue client cenote_cert
  ) >"$state/log/tls.log" 2>&1 || fail "making certificates failed, see $state/log/tls.log"
  chmod 644 "$new"/*.pem
  chmod 755 "$new"
  mv "$new" "$folder"
}

# tls_issue NAME COMMON_NAME
tls_issue() {
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -config ca.conf -subj "/CN=$2" -keyout "$1.key" -out "$1.csr" &&
    openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -sha256 -days 3650 \
      -extfile ca.conf -extensions "$1" -out "$1.pem"
}

tls_env() {
  if [ -n "${CENOTE_TEST_CA:-}" ] && [ "$CENOTE_TEST_CA" != "$state/tls/ca.pem" ]; then
    echo "CENOTE_TEST_CA $CENOTE_TEST_CA"
  elif [ -d "$state/tls" ]; then
    echo "CENOTE_TEST_CA $state/tls/ca.pem"
    echo "CENOTE_TEST_CLIENT_CERT $state/tls/client.pem"
    echo "CENOTE_TEST_CLIENT_KEY $state/tls/client.key"
  fi
}
