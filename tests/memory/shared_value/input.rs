//! Input that makes no sense.

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::shared_value::{BoxError, Error, Serializer, SharedCount, SharedValue};

use super::fixture::{PATH, setup};

#[tokio::test(start_paused = true)]
async fn bad_input_is_refused_at_once() {
    let (server, [client]) = setup().await;
    for path in ["", "/", "relative", "/a//b"] {
        let error = SharedCount::count(&client, path).seed(1).start().await.expect_err(path);
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{path:?}: {error}");
    }
    let large = vec![0; 2 << 20];
    let error = SharedValue::builder(&client, PATH).seed(large.clone()).start().await.expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(server.paths(), [""; 0]);
    let value = SharedValue::builder(&client, PATH).seed("small").start().await.expect("it starts");
    let error = value.set(large).await.expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains(PATH), "{error}");
    client.close().await.expect("closed");
    let error = SharedCount::count(&client, PATH).start().await.expect_err("closed");
    assert!(matches!(error, Error::Closed { .. }), "{error:?}");
}

/// Numbers below ten.
#[derive(Debug)]
struct Digit;

impl Serializer for Digit {
    type Item = u8;

    fn serialize(&self, item: &u8) -> Result<Vec<u8>, BoxError> {
        if *item < 10 { Ok(vec![b'0' + item]) } else { Err(format!("{item} is not a digit").into()) }
    }

    fn deserialize(&self, bytes: &[u8]) -> Result<u8, BoxError> {
        match bytes {
            [digit @ b'0'..=b'9'] => Ok(digit - b'0'),
            _ => Err("not a digit".into()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_serialized_is_not_written() {
    let (server, [client]) = setup().await;
    let builder = || SharedValue::builder(&client, PATH).decode(Digit);
    let error = builder().seed(10).start().await.expect_err("no digit");
    assert!(matches!(error, Error::Unserializable { .. }), "{error:?}");
    assert_eq!(server.paths(), [""; 0]);
    let value = builder().seed(9).start().await.expect("it starts");
    for error in
        [value.set(10).await.expect_err("no digit"), value.update(|now| Some(now + 1)).await.expect_err("no digit")]
    {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("10 is not a digit"), "{error}");
    }
    assert_eq!(server.get(PATH), Some(b"9".to_vec()));
}
