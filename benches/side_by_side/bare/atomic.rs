//! Additions to a number: one transaction writes the number and a node that shows whether the addition was carried out,
//! each at its known version.

use super::socket::{PERSISTENT, Socket};
use super::{Column, timed};

/// Adds one in each cycle; the versions are known from the previous cycle.
pub(crate) fn add(addr: &str, dir: &str, cycles: u64) -> Column {
    let mut socket = Socket::connect(addr);
    let [value, writer] = ["value", "writer"].map(|name| format!("{dir}/{name}"));
    for path in [&value, &writer] {
        socket.create(path, &0_i64.to_be_bytes(), PERSISTENT);
    }
    let mut version = 0_i32;
    Column::new(move || {
        timed(cycles, || {
            let data = i64::from(version + 1).to_be_bytes();
            socket.add_multi(|multi| {
                multi.set_data_at(&value, &data, version);
                multi.set_data_at(&writer, &data, version);
            });
            socket.send();
            socket.answer().expect("written").committed();
            version += 1;
        })
    })
}
