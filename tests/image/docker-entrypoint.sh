#!/bin/sh
# Writes zoo.cfg and myid from the environment, as the official `zookeeper` image does, then runs the command.
# A file that is there already is kept, so that a stopped container starts again with the same settings.
set -e
mkdir -p "$ZOO_CONF_DIR" "$ZOO_DATA_DIR" "$ZOO_DATA_LOG_DIR"
config="$ZOO_CONF_DIR/zoo.cfg"
if [ ! -f "$config" ]; then
    {
        cat <<END
dataDir=$ZOO_DATA_DIR
dataLogDir=$ZOO_DATA_LOG_DIR
tickTime=$ZOO_TICK_TIME
initLimit=$ZOO_INIT_LIMIT
syncLimit=$ZOO_SYNC_LIMIT
maxClientCnxns=$ZOO_MAX_CLIENT_CNXNS
autopurge.snapRetainCount=$ZOO_AUTOPURGE_SNAPRETAINCOUNT
autopurge.purgeInterval=$ZOO_AUTOPURGE_PURGEINTERVAL
standaloneEnabled=$ZOO_STANDALONE_ENABLED
admin.enableServer=$ZOO_ADMINSERVER_ENABLED
END
        # Both are lists of words, one line of the file each.
        for server in ${ZOO_SERVERS:-server.1=localhost:2888:3888;2181}; do echo "$server"; done
        for line in $ZOO_CFG_EXTRA; do echo "$line"; done
        [ -z "$ZOO_4LW_COMMANDS_WHITELIST" ] || echo "4lw.commands.whitelist=$ZOO_4LW_COMMANDS_WHITELIST"
    } > "$config.new"
    mv "$config.new" "$config"
fi
[ -f "$ZOO_DATA_DIR/myid" ] || echo "${ZOO_MY_ID:-1}" > "$ZOO_DATA_DIR/myid"
exec "$@"
