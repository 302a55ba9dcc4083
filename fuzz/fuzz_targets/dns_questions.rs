//! Messages that anybody sends to the name server of a zone.
#![no_main]

use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use libfuzzer_sys::fuzz_target;
use sekisho_dns::authority::{Transport, Zone};

fuzz_target!(|message: &[u8]| {
    let zone = Zone::new("dcv.example", Vec::new()).expect("a zone");
    let reached = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    for (via, most) in [(Transport::Udp, 1232), (Transport::Tcp, 65535)] {
        let texts = [("a.dcv.example.".to_owned(), vec!["text".to_owned()])];
        let texts = std::future::ready(Some(Arc::new(texts.into())));
        let answer = pin!(zone.answer(message, via, reached, texts));
        match answer.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some((answer, _))) => assert!(answer.len() <= most),
            Poll::Ready(None) => {}
            Poll::Pending => panic!("nothing is waited for"),
        }
    }
});
