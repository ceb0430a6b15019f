# Makes weir@.service of weir.service: one router for each interface, weir@eth1.service with /etc/weir/eth1.toml and
# its socket in /run/weir@eth1. usage: sed -f packaging/weir@.sed packaging/weir.service
1,3c\
# The queue of an interface, weir@eth1 for eth1. The Debian package has it; without the package, install it as\
# /etc/systemd/system/weir@.service and the program as /usr/bin/weir. The configuration is readable for\
# everybody: the service has a user of its own.
s/^Description=.*/Description=weir, the queue of %i/
s/`weir init --out [^`]*`/`weir queue INTERFACE --save`/
s,/etc/weir/weir\.toml,/etc/weir/%i.toml,
s/^RuntimeDirectory=weir$/&@%i/
s/`systemctl edit weir`/`systemctl edit weir@INTERFACE`/
