//! How the supervisor knows until when it may let the command run: the keeper writes the end of the lease into a file
//! in memory that both have open. So there is only ever the latest value, however long one of them was stopped.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::sys::uio::{pread, pwrite};
use nix::time::{ClockId, clock_gettime};

/// A moment by a clock that all processes of the machine share and that, where possible, runs while the machine sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;

impl Moment {
    /// The end of what has no end.
    pub const NEVER: Moment = Moment(Duration::from_nanos(u64::MAX));

    pub fn now() -> Moment {
        // These clocks cannot fail. If one did, all leases would be over.
        Moment(clock_gettime(CLOCK).map_or(Duration::MAX, Duration::from))
    }

    pub fn after(self, time: Duration) -> Moment {
        Moment(self.0.saturating_add(time))
    }

    pub fn before(self, time: Duration) -> Moment {
        Moment(self.0.saturating_sub(time))
    }

    fn to_bytes(self) -> [u8; VALUE] {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX).to_be_bytes()
    }

    fn from_bytes(bytes: [u8; VALUE]) -> Moment {
        Moment(Duration::from_nanos(u64::from_be_bytes(bytes)))
    }
}

const VALUE: usize = size_of::<u64>();

/// How often at most a value is read while another process writes it.
const ATTEMPTS: usize = 3;

/// Returns an empty file for [`write()`] and [`read()`].
pub fn create() -> io::Result<File> {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    {
        use nix::sys::memfd::{MFdFlags, memfd_create};
        Ok(File::from(memfd_create(c"zkr-lease", MFdFlags::MFD_CLOEXEC)?))
    }
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
    {
        tempfile::tempfile()
    }
}

/// Writes the end of the lease.
pub fn write(file: &impl AsFd, end: Moment) -> io::Result<()> {
    // Written twice, so that a reader notices when it has read half of it.
    let value = end.to_bytes();
    let written = pwrite(file, &[value, value].concat(), 0)?;
    if written == 2 * VALUE { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Reads the end of the lease; `None` if none has been written yet, or it cannot be read.
pub fn read(file: &impl AsFd) -> Option<Moment> {
    (0..ATTEMPTS).find_map(|_| {
        let mut values = [[0; VALUE]; 2];
        let read = pread(file, values.as_flattened_mut(), 0).ok()?;
        (read == 2 * VALUE && values[0] == values[1]).then(|| Moment::from_bytes(values[0]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_value_is_read() {
        let file = create().expect("a file");
        assert_eq!(read(&file), None);
        for end in [Moment::now(), Moment::NEVER, Moment(Duration::from_nanos(1))] {
            write(&file, end).expect("written");
            assert_eq!(read(&file), Some(end));
        }
    }

    #[test]
    fn half_a_value_is_none() {
        let file = create().expect("a file");
        write(&file, Moment::NEVER).expect("written");
        pwrite(&file, &[0], 0).expect("written");
        assert_eq!(read(&file), None);
    }
}
