# Sourced by ./quickstart, ./check and experiments/packages: what they need before they can build.
# shellcheck shell=bash

# ip, tcpdump and others live there on Debian, and not every user's PATH has it.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

# Remarks of the set-up that the user must see again at the end.
setup_remarks=()

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        return 1
    fi
}

# Runs a command that installs packages, so that no service of theirs starts: by policy-rc.d, which
# Debian's packages ask first (invoke-rc.d(8)). A policy that is there already stays.
without_services() {
    local policy=/usr/sbin/policy-rc.d
    if [ -e $policy ]; then
        "$@"
        return
    fi
    (
        trap 'as_root rm -f $policy' EXIT
        printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
        as_root chmod 755 $policy
        "$@"
    )
}

# Services of freshly installed packages that would start at the next boot: the tests run their own.
disable_services() { # PACKAGE...
    local name service
    command -v systemctl >/dev/null || return 0
    for name in nginx haproxy openvswitch-switch etcd-server openssh-server; do
        service=${name%-server}
        [[ " $* " != *" $name "* ]] || as_root systemctl disable -q "${service/openssh/ssh}.service" || true
    done
}

# need_packages COMMAND:PACKAGE... installs packages with a missing command, or file if it is a path.
need_packages() {
    local pair missing=()
    for pair in "$@"; do
        [ -e "${pair%%:*}" ] || command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
    done
    [ ${#missing[@]} = 0 ] && return 0
    echo "installing: ${missing[*]}"
    if ! command -v apt-get >/dev/null; then
        setup_remarks+=("no apt-get here; install by hand: ${missing[*]}")
        return 1
    fi
    if ! { as_root apt-get -qq update &&
        without_services as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
            --no-install-recommends install "${missing[@]}" &&
        disable_services "${missing[@]}"; } >"$setup_log" 2>&1; then
        tail -n 5 "$setup_log"
        setup_remarks+=("apt-get could not install ${missing[*]} (root or sudo, and a working apt, are needed)")
        return 1
    fi
}

# The toolchain that rust-toolchain.toml names, fetched by rustup if it is not there.
need_rust() {
    [ -r "$HOME/.cargo/env" ] && . "$HOME/.cargo/env"
    if ! command -v cargo >/dev/null; then
        echo "cargo is not installed: install rustup (Debian: apt install rustup), then run this again." >&2
        return 1
    fi
    cargo --version >/dev/null 2>&1 && return 0
    local version
    version=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
    echo "installing Rust $version"
    rustup toolchain install "$version" --profile minimal -c rustfmt -c clippy >"$setup_log" 2>&1 || {
        tail -n 5 "$setup_log" >&2
        echo "rustup could not install Rust $version" >&2
        return 1
    }
}
