//! Which addresses are out in the world, whatever way they are written.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address that a packet would go to: an IPv4 address in the clothes of IPv6 is undressed.
pub fn canonical(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(address, IpAddr::V4),
    }
}

/// Whether anybody on the Internet may have this address. What is reserved, translated, tunnelled or
/// for documents is not.
pub fn is_public(address: IpAddr) -> bool {
    match canonical(address) {
        IpAddr::V4(four) => is_public_v4(four),
        IpAddr::V6(six) => is_public_v6(six),
    }
}

/// Blocks of IPv4 that are nobody's on the Internet: (first address, length of the prefix).
const RESERVED_V4: [([u8; 4], u32); 15] = [
    ([0, 0, 0, 0], 8),       // this network
    ([10, 0, 0, 0], 8),      // private
    ([100, 64, 0, 0], 10),   // carriers
    ([127, 0, 0, 0], 8),     // this machine
    ([169, 254, 0, 0], 16),  // link-local, clouds' metadata
    ([172, 16, 0, 0], 12),   // private
    ([192, 0, 0, 0], 24),    // protocols
    ([192, 0, 2, 0], 24),    // documents
    ([192, 88, 99, 0], 24),  // relays of 6to4
    ([192, 168, 0, 0], 16),  // private
    ([198, 18, 0, 0], 15),   // benchmarks
    ([198, 51, 100, 0], 24), // documents
    ([203, 0, 113, 0], 24),  // documents
    ([224, 0, 0, 0], 4),     // multicast
    ([240, 0, 0, 0], 4),     // future use, broadcast
];

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    let within = |(first, length): &([u8; 4], u32)| {
        let shift = 32 - length;
        bits >> shift == Ipv4Addr::from(*first).to_bits() >> shift
    };
    !RESERVED_V4.iter().any(within)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let words = address.segments();
    // NAT64: where there is no IPv4, names are answered so. It is as good as what is inside.
    if words[..6] == [0x64, 0xff9b, 0, 0, 0, 0] {
        let [.., a, b, c, d] = address.octets();
        return is_public_v4(Ipv4Addr::new(a, b, c, d));
    }
    let is_global_unicast = words[0] & 0xe000 == 0x2000;
    // 2001::/23 holds protocols and tunnels (Teredo), 2001:db8::/32 and 3fff::/20 documents, and
    // 2002::/16 is 6to4: an IPv4 address in disguise.
    let is_special = words[0] == 0x2001 && (words[1] < 0x0200 || words[1] == 0x0db8)
        || words[0] == 0x2002
        || words[0] == 0x3fff && words[1] < 0x1000;
    is_global_unicast && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nobodys_is_not_public_in_any_spelling() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:7f00:1",
            "::ffff:10.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a00:1",
            "64:ff9b:1::808:808",
            "100::1",
            "2001::1",
            "2001:1ff::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:808:808::1",
            "3fff::1",
            "3fff:fff::1",
            "5f00::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fe81::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn addresses_of_the_internet_are_public() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2001:200::1",
            "2606:4700::1111",
            "2a00::1",
            "3fff:1000::1",
        ] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }
}
