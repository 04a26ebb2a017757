//! The content of the pages of tools.

use super::*;

#[test]
fn the_address_selects() {
    let fields = |text: &str| Selection::of(&crate::query::pairs(text).unwrap());
    assert_eq!(fields(""), Selection::default());
    let expected = Selection { query: "delete user".into(), server: "demo".into(), risk: "high".into(), page: 2 };
    assert_eq!(fields("q=+delete+user&server=demo&risk=high&page=2"), expected);
    assert_eq!(fields("page=-1").page, 0);
    let hostile = Selection { server: "a&b\"<".into(), ..Selection::default() };
    assert_eq!(hostile.href(3), "/ui/tools?server=a%26b%22%3C&risk=&page=3");
}

#[test]
fn pages_have_a_bound() {
    let server = ServerName::parse("fx").unwrap();
    let json = |number: usize| format!(r#"{{"name":"t{number:05}","description":"<b>{number}","inputSchema":{{}}}}"#);
    let offered = (0..250).map(|number| mcpproxy_core::Offered::parse(&server, &json(number)));
    let offer = mcpproxy_core::Offer::new(offered).0;
    let catalog = mcpproxy_core::Catalog::new([(server.clone(), std::sync::Arc::new(offer))]);
    let tools = || catalog.tools().map(|tool| ListedTool::Visible(std::sync::Arc::clone(tool))).collect::<Vec<_>>();
    let page = |page: usize| {
        let selection = Selection { page, ..Selection::default() };
        Tools::list(Frame::default(), tools(), std::slice::from_ref(&server), selection)
    };
    let first = page(0);
    assert_eq!((first.count, first.first, first.last), (250, 1, 100));
    assert_eq!((first.earlier.as_deref(), first.later.as_deref()), (None, Some("/ui/tools?server=&risk=&page=1")));
    let last = page(9);
    assert_eq!((last.first, last.last, last.later), (201, 250, None));
    let html = first.render().unwrap();
    assert!(html.contains("&lt;b&gt;7") && !html.contains("<b>7"), "{html}");
    assert!(html.contains("Tools 1 to 100 of 250"));
}
