//! The operations of requests.

use super::jute::open_codes;

open_codes! {
    /// The number of an operation.
    OpCode {
        Notification = 0,
        Create = 1,
        Delete = 2,
        Exists = 3,
        GetData = 4,
        SetData = 5,
        GetAcl = 6,
        SetAcl = 7,
        GetChildren = 8,
        Sync = 9,
        Ping = 11,
        GetChildren2 = 12,
        Check = 13,
        Multi = 14,
        Create2 = 15,
        Reconfig = 16,
        CheckWatches = 17,
        RemoveWatches = 18,
        CreateContainer = 19,
        DeleteContainer = 20,
        CreateTtl = 21,
        MultiRead = 22,
        Auth = 100,
        SetWatches = 101,
        Sasl = 102,
        GetEphemerals = 103,
        GetAllChildrenNumber = 104,
        SetWatches2 = 105,
        AddWatch = 106,
        WhoAmI = 107,
        /// Only in the servers' log.
        CreateSession = -10,
        CloseSession = -11,
        /// A failed step in the results of a multi; also ends a multi.
        Error = -1,
    }
}

impl OpCode {
    /// Describes an operation that some servers lack, for users: its name, and the servers that it needs.
    pub(crate) fn description(self) -> &'static str {
        match self {
            OpCode::Create2 => "create2 (needs ZooKeeper 3.5 or ClickHouse Keeper 26)",
            OpCode::CreateContainer => "createContainer (needs ZooKeeper 3.5.1 or ClickHouse Keeper from mid 2026)",
            OpCode::CreateTtl => {
                "createTTL (needs ZooKeeper 3.5.3 with zookeeper.extendedTypesEnabled, or ClickHouse Keeper 26.6)"
            }
            OpCode::RemoveWatches => "removeWatches (needs ZooKeeper 3.5 or ClickHouse Keeper from the end of 2025)",
            OpCode::MultiRead => "multiRead (needs ZooKeeper 3.6)",
            OpCode::AddWatch => "addWatch (needs ZooKeeper 3.6 or ClickHouse Keeper from the end of 2025)",
            _ => "this operation",
        }
    }
}
