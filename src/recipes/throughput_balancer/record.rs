//! The data of a member's node.

use serde::{Deserialize, Serialize};

use crate::layout::throughput_balancer::Decision;

/// The largest allowed maximum: the largest signed 64-bit number, for programs in other languages.
pub const MAX_THROUGHPUT: u64 = i64::MAX as u64;

/// A member's record: its options, which it writes when it registers, and its share, which the leader writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The share.
    pub(super) throughput: u64,
    /// The largest share that the member may be applying until it acknowledges this record.
    #[serde(default)]
    pub(super) ceiling: u64,
    #[serde(default)]
    pub(super) epoch: i64,
    #[serde(default)]
    pub(super) sequence: u64,
    /// The random id of the member in the election.
    #[serde(default)]
    pub(super) id: String,
    /// The id that its user has given it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) label: Option<String>,
    #[serde(default = "one")]
    pub(super) weight: u64,
    #[serde(default)]
    pub(super) min: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) max: Option<u64>,
    /// Fields that this version does not know. They are written back unchanged.
    #[serde(flatten)]
    pub(super) others: serde_json::Map<String, serde_json::Value>,
}

fn one() -> u64 {
    1
}

impl Record {
    /// Returns the record of a member that registers and applies `throughput` until it gets a share.
    pub(super) fn new(id: &str, throughput: u64) -> Self {
        Record {
            throughput,
            ceiling: throughput,
            epoch: 0,
            sequence: 0,
            id: id.to_owned(),
            label: None,
            weight: 1,
            min: 0,
            max: None,
            others: serde_json::Map::new(),
        }
    }

    /// Parses the data of a node. The error says why it is not a record.
    pub(super) fn parse(data: &[u8]) -> Result<Self, String> {
        let mut record: Record = serde_json::from_slice(data).map_err(|error| error.to_string())?;
        if record.weight == 0 {
            return Err("weight 0; must be at least 1".into());
        }
        if record.throughput.max(record.ceiling) > MAX_THROUGHPUT {
            return Err(format!("a throughput above {MAX_THROUGHPUT}"));
        }
        if let Some(max) = record.max
            && record.min > max
        {
            return Err(format!("min {} is above max {max}", record.min));
        }
        // Other programs may write a record without a ceiling.
        record.ceiling = record.ceiling.max(record.throughput);
        Ok(record)
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns the name that events use for the member whose node has this name.
    pub(super) fn display_name(&self, name: &str) -> String {
        self.label.as_ref().map_or_else(|| name.to_owned(), |label| format!("{label} ({name})"))
    }

    pub(super) fn decision(&self) -> Decision {
        Decision { epoch: self.epoch, sequence: self.sequence }
    }

    /// Returns the next record of the same member.
    pub(super) fn next(&self, throughput: u64, ceiling: u64, decision: Decision) -> Record {
        Record { throughput, ceiling, epoch: decision.epoch, sequence: decision.sequence, ..self.clone() }
    }

    /// Returns whether the leader waits for the member's acknowledgement.
    pub(super) fn wants_ack(&self) -> bool {
        self.throughput < self.ceiling
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_with_fields_of_other_programs() {
        let decision = Decision { epoch: 3, sequence: 4 };
        let record = Record { max: Some(9), ..Record::new("me", 5) }.next(2, 5, decision);
        let read = Record::parse(&record.bytes()).expect("a record");
        assert_eq!((&read, read.decision(), read.wants_ack()), (&record, decision, true));
        let foreign = Record::parse(br#"{"throughput":333,"colour":"red"}"#).expect("a record");
        assert_eq!((foreign.throughput, foreign.ceiling, foreign.weight), (333, 333, 1));
        let next = foreign.next(1, 333, decision);
        assert!(String::from_utf8_lossy(&next.bytes()).contains(r#""colour":"red""#));
    }

    #[test]
    fn data_that_is_no_record_is_refused_with_a_reason() {
        for (data, why) in [
            (&b""[..], "EOF"),
            (b"{}", "throughput"),
            (br#"{"throughput":-1}"#, "-1"),
            (br#"{"throughput":1,"weight":0}"#, "at least 1"),
            (br#"{"throughput":1,"min":3,"max":2}"#, "min 3 is above max 2"),
        ] {
            let error = Record::parse(data).expect_err("no record");
            assert!(error.contains(why), "{error}");
        }
    }
}
