//! The cache on an ensemble in memory.

mod basics;

mod fixture;
