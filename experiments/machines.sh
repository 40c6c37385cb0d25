# What the scripts of roles share (`. $ROOT/experiments/machines.sh`). A machine's NICs carry nothing but
# the experiment: the scripts give them addresses and take those away.

# Switches a NIC on. The kernel sends nothing of its own.
up() { # INTERFACE
    ip link set "$1" addrgenmode none up
}

# Gives an address, or the Nth behind it, to a NIC in a network of 256, while the script runs.
address() { # INTERFACE ADDRESS [N]
    local address
    address=$(neighbour "$2" "${3:-0}")/24
    up "$1"
    ip address replace "$address" dev "$1"
    at_end "ip address del $address dev $1"
}

# Reaches a network by a router, while the script runs.
route() { # NETWORK ROUTER
    ip route replace "$1" via "$2"
    at_end "ip route del $1 via $2"
}

# The network of 256 that an address is in.
network() { # ADDRESS
    echo "${1%.*}.0/24"
}

# The Nth address behind another.
neighbour() { # ADDRESS N
    echo "${1%.*}.$((${1##*.} + $2))"
}

# Runs a command when the script ends; what is said last comes first.
at_end() { # COMMAND
    ends="$1 2>/dev/null; ${ends:-}"
    trap "$ends" EXIT
}

# Runs a command until the experiment's last script says `over ROLE`, for two minutes at most. Its output
# goes to ROLE.log.
serve() { # ROLE COMMAND...
    local role=$1 pid end
    shift
    rm -f "over-$role"
    "$@" >"$role.log" 2>&1 &
    pid=$! end=$((SECONDS + 120))
    at_end "kill $pid"
    while [ $SECONDS -lt $end ]; do
        [ ! -e "over-$role" ] || return 0
        kill -0 $pid 2>/dev/null || break
        sleep 0.1
    done
    echo "$role: $1 ended early:"
    tail -n 20 "$role.log"
    return 1
}

# Ends `serve`.
over() { # ROLE
    touch "over-$1"
}

# Serves an object of zeros by HTTP at these addresses, as `serve`.
serve_web() { # ROLE BYTES ADDRESS...
    local role=$1 bytes=$2 here
    shift 2
    here=$(pwd -P)/$role
    rm -rf "$here" && mkdir -p "$here"
    head -c "$bytes" /dev/zero >"$here/object"
    cat >"$here/nginx.conf" <<END
daemon off; master_process off; pid $here/pid; error_log $here/error;
events { worker_connections 4096; }
http {
    access_log off; sendfile on; keepalive_requests 100000000;
    client_body_temp_path $here/t1; proxy_temp_path $here/t2; fastcgi_temp_path $here/t3;
    uwsgi_temp_path $here/t4; scgi_temp_path $here/t5;
    server { $(printf 'listen %s:80 backlog=4096; ' "$@") root $here; }
}
END
    serve "$role" nginx -c "$here/nginx.conf"
}

# Waits until a command succeeds, for twenty seconds.
until_it_works() { # COMMAND...
    local end=$((SECONDS + 20))
    while [ $SECONDS -lt $end ]; do
        ! "$@" >/dev/null 2>&1 || return 0
        sleep 0.2
    done
    echo "in vain: $*"
    return 1
}
