use std::sync::Arc;
use weir_base::*; use weir_path::{parse::Mode, port::Link, step::*, tables::*};
use weir_discipline::Spec;
fn main(){
 for kind in std::env::args().nth(2).map_or(vec!["fifo".to_string(),"lru_fq".into()],|k|vec![k]) {
  let mut plane = Plane::new(Mode::Routed, 16384, 1518, Streams::new(1));
  let mut t = Tables::default();
  for (i,n) in [(1,"a"),(2,"b")] { t.interfaces.insert(i, Interface{name:n.into(),mac:[2;6],mtu:1500,up:true,addresses:vec![]}); }
  t.set_route("10.77.2.0/24".parse().unwrap(), Route{action:Action::Forward(vec![NextHop{interface:2,gateway:None,weight:1}]),metric:0});
  t.neighbours.insert((2,"10.77.2.2".parse().unwrap()), Neighbour::Reachable([3;6]));
  for n in ["a","b"] { plane.add_port(n,n,Spec::check(&kind,[]).unwrap(),Link{rate:None,overhead:24,frame_bytes_max:1514},Instant::ZERO); }
  plane.set_tables(Arc::new(t), Instant::ZERO);
  let frames: Vec<Vec<u8>> = (0..4096u16).map(|f|{let mut frame=vec![0u8;60];frame[12]=8;frame[14..24].copy_from_slice(&[0x45,0,0,46,0,0,0x40,0,64,17]);frame[26..30].copy_from_slice(&[10,77,1,2]);frame[30..34].copy_from_slice(&[10,77,2,2]);let c=weir_wire::checksum::internet(&frame[14..34]);frame[24..26].copy_from_slice(&c.to_be_bytes());frame[34..36].copy_from_slice(&(1024+f).to_be_bytes());frame}).collect();
  for rep in 0..3u64 {
  let s=std::time::Instant::now(); let mut n=0u64;
  for round in 0..std::env::args().nth(1).map_or(500u64,|x|x.parse().unwrap()) { for burst in frames.chunks(64) { let now=Instant::from_nanos(rep*1000000+round*1000); for f in burst { plane.receive(0,f,Arrival{at:now,len:60,vlan:None,checksum_partial:false}); } plane.step(now); plane.flush(1,|b|{n+=b.len() as u64;Ok::<_,()>(b.len())}).unwrap(); } }
  println!("{kind} {} ns/packet ({n})", s.elapsed().as_nanos() as f64/n as f64);
  }
 }
}
