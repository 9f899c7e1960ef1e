//! Transactions, and many reads in one request: a header before each step and result, and a last header that marks the
//! end.

use super::error_code::ErrorCode;
use super::jute::{Decode, Encode, Malformed, Problem, Reader, Writer, record};
use super::op::OpCode;
use super::request::{
    CheckRequest, CreateRequest, CreateTtlRequest, DeleteRequest, GetChildrenRequest, GetDataRequest, Request,
    SetDataRequest, request,
};
use super::response::{Create2Response, CreateResponse, ErrorResponse, GetChildrenResponse, GetDataResponse};
use crate::util::znode::Stat;

record! {
    MultiHeader {
        op: OpCode,
        done: bool,
        /// The code of a failed step; otherwise 0 in results and −1 in requests.
        err: i32,
    }
}

impl MultiHeader {
    const END: MultiHeader = MultiHeader { op: OpCode::Error, done: true, err: -1 };
}

/// One step of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MultiOp<'a> {
    Check(CheckRequest<'a>),
    /// Creates a node by the older operation, whose result has no stat.
    Create(CreateRequest<'a>),
    Create2(CreateRequest<'a>),
    CreateContainer(CreateRequest<'a>),
    CreateTtl(CreateTtlRequest<'a>),
    SetData(SetDataRequest<'a>),
    Delete(DeleteRequest<'a>),
}

impl<'a> MultiOp<'a> {
    /// Creates a node by the operation whose result has a stat.
    pub(crate) fn create(request: CreateRequest<'a>) -> Self {
        match request.op() {
            OpCode::CreateContainer => MultiOp::CreateContainer(request),
            _ => MultiOp::Create2(request),
        }
    }

    pub(crate) fn op(&self) -> OpCode {
        match self {
            MultiOp::Check(_) => OpCode::Check,
            MultiOp::Create(_) => OpCode::Create,
            MultiOp::Create2(_) => OpCode::Create2,
            MultiOp::CreateContainer(_) => OpCode::CreateContainer,
            MultiOp::CreateTtl(_) => OpCode::CreateTtl,
            MultiOp::SetData(_) => OpCode::SetData,
            MultiOp::Delete(_) => OpCode::Delete,
        }
    }
}

/// A transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MultiRequest<'a> {
    pub(crate) ops: Vec<MultiOp<'a>>,
}

impl Request for MultiRequest<'_> {
    fn op(&self) -> OpCode {
        OpCode::Multi
    }

    fn needs(&self) -> OpCode {
        let has = |op: &OpCode| self.ops.iter().any(|step| step.op() == *op);
        let youngest = [OpCode::CreateTtl, OpCode::CreateContainer, OpCode::Create2].into_iter().find(has);
        youngest.unwrap_or(OpCode::Multi)
    }
}

impl Encode for MultiRequest<'_> {
    fn encode(&self, to: &mut Writer<'_>) {
        for op in &self.ops {
            MultiHeader { op: op.op(), done: false, err: -1 }.encode(to);
            match op {
                MultiOp::Check(check) => check.encode(to),
                MultiOp::Create(create) | MultiOp::Create2(create) | MultiOp::CreateContainer(create) => {
                    create.encode(to);
                }
                MultiOp::CreateTtl(create) => create.encode(to),
                MultiOp::SetData(set) => set.encode(to),
                MultiOp::Delete(delete) => delete.encode(to),
            }
        }
        MultiHeader::END.encode(to);
    }
}

impl<'a> Decode<'a> for MultiRequest<'a> {
    const MIN_LEN: usize = MultiHeader::MIN_LEN;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let ops = until_done(from, |op, from| {
            Ok(match op {
                OpCode::Check => Some(MultiOp::Check(CheckRequest::decode(from)?)),
                OpCode::Create => Some(MultiOp::Create(CreateRequest::decode(from)?)),
                OpCode::Create2 => Some(MultiOp::Create2(CreateRequest::decode(from)?)),
                OpCode::CreateContainer => Some(MultiOp::CreateContainer(CreateRequest::decode(from)?)),
                OpCode::CreateTtl => Some(MultiOp::CreateTtl(CreateTtlRequest::decode(from)?)),
                OpCode::SetData => Some(MultiOp::SetData(SetDataRequest::decode(from)?)),
                OpCode::Delete => Some(MultiOp::Delete(DeleteRequest::decode(from)?)),
                _ => None,
            })
        })?;
        Ok(MultiRequest { ops })
    }
}

/// One of many reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReadOp<'a> {
    Data(GetDataRequest<'a>),
    /// The children without the stat.
    Children(GetChildrenRequest<'a>),
}

/// Many reads, each of which may fail on its own. Needs servers from 3.6 on. Arms no watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MultiReadRequest<'a> {
    pub(crate) reads: Vec<ReadOp<'a>>,
}

request!(MultiReadRequest<'_> => MultiRead);

impl Encode for MultiReadRequest<'_> {
    fn encode(&self, to: &mut Writer<'_>) {
        for read in &self.reads {
            let op = if matches!(read, ReadOp::Data(_)) { OpCode::GetData } else { OpCode::GetChildren };
            MultiHeader { op, done: false, err: -1 }.encode(to);
            match read {
                ReadOp::Data(read) => read.encode(to),
                ReadOp::Children(read) => read.encode(to),
            }
        }
        MultiHeader::END.encode(to);
    }
}

impl<'a> Decode<'a> for MultiReadRequest<'a> {
    const MIN_LEN: usize = MultiHeader::MIN_LEN;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let reads = until_done(from, |op, from| {
            Ok(match op {
                OpCode::GetData => Some(ReadOp::Data(GetDataRequest::decode(from)?)),
                OpCode::GetChildren => Some(ReadOp::Children(GetChildrenRequest::decode(from)?)),
                _ => None,
            })
        })?;
        Ok(MultiReadRequest { reads })
    }
}

/// What one step did, or why it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MultiResult {
    Check,
    Create(CreateResponse),
    Create2(Create2Response),
    SetData(Stat),
    Delete,
    /// The result of one of many reads.
    GetData(GetDataResponse),
    /// The result of one of many reads.
    GetChildren(GetChildrenResponse),
    /// In a refused transaction every result is one: `Ok` before the failed step, `RuntimeInconsistency` after it.
    Error(ErrorCode),
}

impl MultiResult {
    fn op(&self) -> OpCode {
        match self {
            MultiResult::Check => OpCode::Check,
            MultiResult::Create(_) => OpCode::Create,
            MultiResult::Create2(_) => OpCode::Create2,
            MultiResult::SetData(_) => OpCode::SetData,
            MultiResult::Delete => OpCode::Delete,
            MultiResult::GetData(_) => OpCode::GetData,
            MultiResult::GetChildren(_) => OpCode::GetChildren,
            MultiResult::Error(_) => OpCode::Error,
        }
    }
}

/// The results of a transaction or of many reads, one for each step. The reply's header says `Ok` even if the
/// transaction was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MultiResponse {
    pub(crate) results: Vec<MultiResult>,
}

impl MultiResponse {
    /// Returns the first step that failed, and why; `None` if the transaction was committed.
    pub(crate) fn refused(&self) -> Option<(usize, ErrorCode)> {
        self.results.iter().enumerate().find_map(|(index, result)| match result {
            MultiResult::Error(code) if !code.is_ok() => Some((index, *code)),
            _ => None,
        })
    }
}

impl Encode for MultiResponse {
    fn encode(&self, to: &mut Writer<'_>) {
        for result in &self.results {
            let err = match result {
                MultiResult::Error(code) => i32::from(*code),
                _ => 0,
            };
            MultiHeader { op: result.op(), done: false, err }.encode(to);
            match result {
                MultiResult::Check | MultiResult::Delete => {}
                MultiResult::Create(created) => created.encode(to),
                MultiResult::Create2(created) => created.encode(to),
                MultiResult::SetData(stat) => stat.encode(to),
                MultiResult::GetData(read) => read.encode(to),
                MultiResult::GetChildren(read) => read.encode(to),
                MultiResult::Error(err) => ErrorResponse { err: *err }.encode(to),
            }
        }
        MultiHeader::END.encode(to);
    }
}

impl<'a> Decode<'a> for MultiResponse {
    const MIN_LEN: usize = MultiHeader::MIN_LEN;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let results = until_done(from, |op, from| {
            Ok(match op {
                OpCode::Check => Some(MultiResult::Check),
                OpCode::Create => Some(MultiResult::Create(CreateResponse::decode(from)?)),
                OpCode::Create2 => Some(MultiResult::Create2(Create2Response::decode(from)?)),
                OpCode::SetData => Some(MultiResult::SetData(Stat::decode(from)?)),
                OpCode::Delete => Some(MultiResult::Delete),
                OpCode::GetData => Some(MultiResult::GetData(GetDataResponse::decode(from)?)),
                OpCode::GetChildren => Some(MultiResult::GetChildren(GetChildrenResponse::decode(from)?)),
                OpCode::Error => Some(MultiResult::Error(ErrorResponse::decode(from)?.err)),
                _ => None,
            })
        })?;
        Ok(MultiResponse { results })
    }
}

/// Reads elements, each after its header, up to the header that ends them. `decode` returns `None` for an operation
/// that is not allowed here.
fn until_done<'a, T>(
    from: &mut Reader<'a>,
    mut decode: impl FnMut(OpCode, &mut Reader<'a>) -> Result<Option<T>, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let mut elements = Vec::new();
    loop {
        let start = from.position();
        let header = MultiHeader::decode(from)?;
        if header.done {
            return Ok(elements);
        }
        match decode(header.op, from)? {
            Some(element) => elements.push(element),
            None => {
                from.field("MultiHeader.op");
                return Err(from.malformed(start, Problem::Value(header.op.into())));
            }
        }
    }
}
