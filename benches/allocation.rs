//! Measures the arithmetic of shares; the aim is 5 ms for the fair shares of 10 000 members. Needs no server.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion};
use zookeeper_recipes::throughput_balancer::allocation::{Allocation, Member};

/// The seed for the members, which are of all kinds and in no order.
const SEED: u64 = 20_261_121;

fn members(count: u64, random: &mut fastrand::Rng) -> Vec<Member> {
    let mut members: Vec<_> = (0..count)
        .map(|number| {
            let member = Member::new(format!("client-{number:010}")).weight(random.u64(1..=100)).min(random.u64(0..50));
            if random.bool() { member.max(random.u64(50..5_000)) } else { member }
        })
        .collect();
    random.shuffle(&mut members);
    members
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut random = fastrand::Rng::with_seed(SEED);
    for (name, rule) in [("fair share", Allocation::FairShare), ("equal", Allocation::Equal)] {
        let mut group = criterion.benchmark_group(name);
        for count in [100, 1_000, 10_000] {
            let members = members(count, &mut random);
            let maximum = count * 500;
            group.bench_with_input(BenchmarkId::from_parameter(count), &members, |bench, members| {
                bench.iter(|| rule.divide(black_box(maximum), black_box(members)).expect("good members"));
            });
        }
        group.finish();
    }
    criterion.final_summary();
}
