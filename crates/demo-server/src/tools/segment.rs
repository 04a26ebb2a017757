//! The recipients of newsletters. They are generated, and always the same.

/// A named group of recipients.
pub(super) struct Segment {
    pub(super) id: &'static str,
    size: usize,
}

/// A recipient as in the address book.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Recipient {
    pub(super) first_name: Option<&'static str>,
    pub(super) address: String,
    pub(super) deliverable: bool,
}

const SEGMENTS: [Segment; 2] =
    [Segment { id: "seg_active_customers", size: 4_833 }, Segment { id: "seg_beta_testers", size: 6 }];

const FIRST_NAMES: [&str; 8] = ["Anna", "Max", "Priya", "Tom", "Lena", "Hiro", "Ines", "Omar"];
const DOMAINS: [&str; 5] =
    ["northwind.example", "contoso.example", "fabrikam.example", "tailspin.example", "litware.example"];

pub(super) fn find(id: &str) -> Option<&'static Segment> {
    SEGMENTS.iter().find(|segment| segment.id == id)
}

impl Segment {
    /// Returns all recipients. Every 112th has no first name, and mail to every 401st bounces.
    pub(super) fn recipients(&self) -> impl Iterator<Item = Recipient> {
        let people = FIRST_NAMES.iter().cycle().zip(DOMAINS.iter().cycle());
        people.zip(1..=self.size).map(|((name, domain), number)| Recipient {
            first_name: (number % 112 != 56).then_some(*name),
            address: format!("{}.{number}@{domain}", name.to_lowercase()),
            deliverable: number % 401 != 200,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_address_comes_twice_and_the_order_is_fixed() {
        let segment = find("seg_active_customers").unwrap();
        let people: Vec<Recipient> = segment.recipients().collect();
        let addresses: BTreeSet<&str> = people.iter().map(|person| person.address.as_str()).collect();
        assert_eq!((people.len(), addresses.len()), (4_833, 4_833));
        assert_eq!(people[0].address, "anna.1@northwind.example");
        assert!(segment.recipients().eq(people));
    }
}
