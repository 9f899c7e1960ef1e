//! Input that makes no sense is refused at once, with the value and what is allowed.

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::double_barrier::{DoubleBarrier, Error};

use super::fixture::{PATH, setup};

#[tokio::test(start_paused = true)]
async fn a_malformed_path_is_refused_when_the_barrier_is_made() {
    let (_server, clients) = setup(1).await;
    for path in ["", "/", "relative", "/trailing/", "/a//b", "/a/../b"] {
        let error = DoubleBarrier::new(&clients[0], path, 2).expect_err(path);
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{path:?}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn options_out_of_range_are_refused_by_name() {
    let (_server, clients) = setup(1).await;
    let builder = |members| DoubleBarrier::builder(&clients[0], PATH, members);
    let too_much = [
        (builder(0), "0 members"),
        (builder(1_000_000), "1000000 members; at most"),
        (builder(2).data(vec![0; 65_537]), "65537"),
    ];
    for (builder, part) in too_much {
        let error = builder.build().expect_err(part);
        assert!(matches!(error, Error::InvalidOption { .. }), "{error:?}");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(part) && error.to_string().contains(PATH), "{error}");
    }
    builder(2_000).data(vec![0; 65_536]).build().expect("plenty, and allowed");
}
