//! Which operation a request asks for.

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
    /// Describes an operation that some servers lack, for users: its name, and which servers have it.
    pub(crate) fn description(self) -> &'static str {
        match self {
            OpCode::Create2 => "create2, of ZooKeeper 3.5 and ClickHouse Keeper 26",
            OpCode::CreateContainer => "createContainer, of ZooKeeper 3.5.1 and ClickHouse Keeper of mid 2026",
            OpCode::CreateTtl => {
                "createTTL, of ZooKeeper 3.5.3 with zookeeper.extendedTypesEnabled, and ClickHouse Keeper 26.6"
            }
            OpCode::RemoveWatches => "removeWatches, of ZooKeeper 3.5 and ClickHouse Keeper of the end of 2025",
            OpCode::MultiRead => "multiRead, of ZooKeeper 3.6",
            OpCode::AddWatch => "addWatch, of ZooKeeper 3.6 and ClickHouse Keeper of the end of 2025",
            _ => "this operation",
        }
    }
}
