#!/bin/sh
# The network of docs/fpf-tutorial.md: `sh fpf_network.sh up` makes it, `down` removes it. The namespaces are
# weir-fpf-s, -c, -b, -d, -a and -t.
#
#                              +--- b ---+
#   s 10.0.1.1 ------ c -------+         +------- a ------ 10.0.6.2 t
#                              +--- d ---+
set -eu

hosts="s c b d a t"

join() { # NODE NODE NET: a link, 10.0.NET.1 at the first and 10.0.NET.2 at the second
    ip -n "weir-fpf-$1" link add name "$2" type veth peer name "$1" netns "weir-fpf-$2"
    ip -n "weir-fpf-$1" address add "10.0.$3.1/24" dev "$2"
    ip -n "weir-fpf-$2" address add "10.0.$3.2/24" dev "$1"
    ip -n "weir-fpf-$1" link set dev "$2" up
    ip -n "weir-fpf-$2" link set dev "$1" up
}

route() { # NODE ROUTE
    node=$1
    shift
    ip -n "weir-fpf-$node" route add "$@"
}

case "${1:-}" in
up)
    for host in $hosts; do
        ip netns add "weir-fpf-$host"
        ip -n "weir-fpf-$host" link set lo up
        ip netns exec "weir-fpf-$host" sysctl -qw net.ipv4.ip_forward=1
    done
    join s c 1
    join c b 2
    join b a 3
    join c d 4
    join d a 5
    join a t 6
    # The routes lead by d, both ways.
    route s default via 10.0.1.2
    route t default via 10.0.6.1
    route c 10.0.6.0/24 via 10.0.4.2
    route d 10.0.6.0/24 via 10.0.5.2
    route d 10.0.1.0/24 via 10.0.4.1
    route a 10.0.1.0/24 via 10.0.5.1
    route b 10.0.6.0/24 via 10.0.3.2
    route b 10.0.1.0/24 via 10.0.2.1
    ;;
down)
    for host in $hosts; do
        ip netns delete "weir-fpf-$host"
    done
    ;;
*)
    echo "usage: $0 up|down" >&2
    exit 2
    ;;
esac
