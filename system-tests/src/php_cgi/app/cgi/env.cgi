#!/bin/sh
# Prints the user and the environment, then the body.
printf 'Content-Type: text/plain\nX-Tenant: %s\nX-User: %s\nX-Echo: %s\n\n' \
    "$(cat ../tenant)" "$(id -u)" "$HTTP_X_NONCE"
env
printf -- '--\n'
exec cat
