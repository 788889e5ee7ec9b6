#!/usr/bin/env bash
# Installs what some tests start (a browser, an SSH server) where that can be done; without it those tests say why they are skipped.
set -uo pipefail

wanted=()
command -v chromium >/dev/null && command -v chromedriver >/dev/null || wanted+=(chromium chromium-driver)
[ -x /usr/sbin/sshd ] || wanted+=(openssh-server)
if [ ${#wanted[@]} -eq 0 ]; then exit 0; fi
if [ "${CI:-}" != true ] || [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "Not installed: ${wanted[*]}. The tests that start them are skipped."
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet=2 && apt-get install --quiet=2 --yes --no-install-recommends "${wanted[@]}" >/dev/null ||
  echo "Could not install ${wanted[*]}. The tests that start them are skipped."
