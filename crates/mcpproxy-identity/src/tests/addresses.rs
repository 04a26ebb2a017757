//! The addresses that requests may go to.

use crate::address::{farthest, nearest};
use crate::{AddressError, Fetch, FetchError, Reach, check_url};
use http::Request;

#[test]
fn networks_are_told_apart() {
    let cases = [
        ("8.8.8.8", Some(Reach::Public)),
        ("2606:4700::1", Some(Reach::Public)),
        ("10.1.2.3", Some(Reach::Private)),
        ("172.16.0.1", Some(Reach::Private)),
        ("192.168.1.1", Some(Reach::Private)),
        ("100.64.0.1", Some(Reach::Private)),
        ("fd00::1", Some(Reach::Private)),
        ("127.0.0.1", Some(Reach::Loopback)),
        ("127.8.9.10", Some(Reach::Loopback)),
        ("::1", Some(Reach::Loopback)),
        ("::ffff:127.0.0.1", Some(Reach::Loopback)),
        ("::ffff:10.0.0.1", Some(Reach::Private)),
        ("64:ff9b::8.8.8.8", Some(Reach::Public)),
        ("64:ff9b::10.0.0.1", Some(Reach::Private)),
        ("64:ff9b::127.0.0.1", Some(Reach::Loopback)),
        ("64:ff9b::169.254.169.254", None),
        ("64:ff9b:1::8.8.8.8", None),
        ("2002:a00:1::1", Some(Reach::Private)),
        ("2002:a9fe:a9fe::", None),
        ("2002:808:808::1", Some(Reach::Public)),
        ("169.254.169.254", None),
        ("::ffff:169.254.169.254", None),
        ("fe80::1", None),
        ("0.0.0.0", None),
        ("::", None),
        ("224.0.0.1", None),
        ("255.255.255.255", None),
    ];
    for (address, expected) in cases {
        assert_eq!(Reach::of(address.parse().unwrap()), expected, "{address}");
    }
}

#[test]
fn a_name_with_several_addresses_gains_nothing() {
    let cases = [
        (&["8.8.8.8", "127.0.0.1"][..], Ok((Reach::Public, Reach::Loopback))),
        (&["127.0.0.1", "8.8.8.8"], Ok((Reach::Public, Reach::Loopback))),
        (&["10.0.0.1", "8.8.8.8", "fd00::1"], Ok((Reach::Public, Reach::Private))),
        (&["127.0.0.1", "::1"], Ok((Reach::Loopback, Reach::Loopback))),
        (&["8.8.8.8", "169.254.169.254"], Err(AddressError::Forbidden("169.254.169.254".parse().unwrap()))),
        (&[], Err(AddressError::Unresolved)),
    ];
    for (addresses, expected) in cases {
        let ips = || addresses.iter().map(|address| address.parse().unwrap());
        let found = farthest(ips()).and_then(|far| Ok((far, nearest(ips())?)));
        assert_eq!(found, expected, "{addresses:?}");
    }
}

#[test]
fn a_url_is_https_or_loopback() {
    for good in
        ["https://id.example", "https://10.0.0.1/x", "http://localhost:9", "http://127.0.0.1", "http://[::1]:8/a"]
    {
        assert!(check_url(good).is_ok(), "{good}");
    }
    let cases = [
        ("http://id.example", AddressError::NotSecure),
        ("http://localhost.evil.example", AddressError::NotSecure),
        ("http://10.0.0.1", AddressError::NotSecure),
        ("ftp://localhost", AddressError::NotSecure),
        ("file:///etc/passwd", AddressError::Invalid),
        ("https://anna:pw@id.example", AddressError::Credentials),
        ("https://id.example/#x", AddressError::Fragment),
        ("id.example", AddressError::Invalid),
    ];
    for (bad, expected) in cases {
        assert_eq!(check_url(bad), Err(expected), "{bad}");
    }
}

#[tokio::test]
async fn a_public_server_cannot_name_a_nearer_address() {
    for url in [
        "https://127.0.0.1:1/",
        "https://[::1]:1/",
        "https://10.0.0.1/",
        "https://169.254.169.254/",
        "https://localhost:1/",
    ] {
        let request = Request::get(url).body(Vec::new()).unwrap();
        let refused = Fetch::within(Reach::Public).send(request).await.unwrap_err();
        assert!(matches!(refused, FetchError::Address(AddressError::Forbidden(_))), "{url}: {refused}");
    }
    // The operator may name loopback, and nobody may name the metadata service of a cloud.
    let request = Request::get("http://127.0.0.1:1/").body(Vec::new()).unwrap();
    assert!(matches!(Fetch::for_operator().send(request).await, Err(FetchError::Unreachable(_))));
    let request = Request::get("https://169.254.169.254/").body(Vec::new()).unwrap();
    assert!(matches!(Fetch::for_operator().send(request).await, Err(FetchError::Address(_))));
}
