//! System calls used in several files, as safe functions.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// A plain C structure or integer: any bytes are a valid value, and it holds no pointer.
///
/// # Safety
/// The type must be `repr(C)` or an integer, without references, and valid for any bytes.
pub(crate) unsafe trait Pod: Copy {}

// SAFETY: an integer.
unsafe impl Pod for libc::c_int {}
// SAFETY: integers only.
unsafe impl Pod for libc::tpacket_req {}
// SAFETY: integers only.
unsafe impl Pod for libc::tpacket_stats {}
// SAFETY: integers only.
unsafe impl Pod for libc::packet_mreq {}

/// Sets a socket option.
pub(crate) fn set_option<T: Pod>(
    socket: &impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: pointer and length describe `value`, which the kernel only reads.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    check(result)
}

/// Reads a socket option.
pub(crate) fn option<T: Pod>(
    socket: &impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<T> {
    // SAFETY: `Pod` promises that any bytes, zeros too, are a value.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: pointer and length describe `value`, and any bytes are a value of its type.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            std::ptr::from_mut(&mut value).cast(),
            &mut len,
        )
    };
    check(result).map(|()| value)
}

/// Reads a socket option whose request is in the buffer that the kernel fills.
pub(crate) fn exchange_option(
    socket: &impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    buffer: &mut [u8],
) -> io::Result<()> {
    let mut len = buffer.len() as libc::socklen_t;
    // SAFETY: pointer and length describe `buffer`, whose bytes may have any value.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            buffer.as_mut_ptr().cast(),
            &mut len,
        )
    };
    check(result)
}

/// A buffer for control messages, aligned for the kernel, with room for a stamp.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Takes one message from a socket with the option `SO_TIMESTAMPNS`: its length, and the kernel's stamp in seconds and
/// nanoseconds since 1970. Does not block.
pub(crate) fn receive_stamped(
    socket: &impl AsFd,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<(u32, u32)>)> {
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let mut control = Control([0; 64]);
    // SAFETY: all zeros is a message header without address, data and control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the part and the control data are borrowed mutably during the call, and the kernel writes no more into
    // them than their lengths permit.
    let len = unsafe { libc::recvmsg(fd, &mut message, libc::MSG_DONTWAIT) };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the header describes our control data, which is aligned and was written by the kernel.
    let first = unsafe { libc::CMSG_FIRSTHDR(&message).as_ref() };
    let is_stamp = |c: &&libc::cmsghdr| {
        (c.cmsg_level, c.cmsg_type) == (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS)
    };
    let stamp = first.filter(is_stamp).map(|header| {
        // SAFETY: the kernel puts a timespec behind the header of a stamp, and the control data has room for both.
        let time = unsafe {
            libc::CMSG_DATA(header)
                .cast::<libc::timespec>()
                .read_unaligned()
        };
        (time.tv_sec as u32, time.tv_nsec as u32)
    });
    Ok((len, stamp))
}

/// Creates a socket address from a C structure.
///
/// # Safety
/// `address` must be a socket address structure that is valid for any bytes.
pub(crate) unsafe fn address<T: Copy>(address: T) -> io::Result<socket2::SockAddr> {
    // SAFETY: the storage is large enough for every socket address, which is asserted; the
    // length that is set is the structure's, all of which was written.
    unsafe {
        socket2::SockAddr::try_init(|storage, len| {
            assert!(size_of::<T>() <= *len as usize);
            storage.cast::<T>().write_unaligned(address);
            *len = size_of::<T>() as libc::socklen_t;
            Ok(())
        })
        .map(|((), address)| address)
    }
}

/// Duplicates a file to a descriptor of at least `number`, which is closed in child programs.
pub(crate) fn numbered_from(file: &impl AsFd, number: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: with this command, fcntl takes numbers and does not touch our memory.
    let fd = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_DUPFD_CLOEXEC, number) };
    check(fd)?;
    // SAFETY: the descriptor is new, valid, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The last error, if a system call's result reports one.
pub(crate) fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Number of BPF programs at the ingress of an interface (tcx, Linux 6.6).
pub(crate) fn tcx_ingress_programs(interface: u32) -> io::Result<u32> {
    const BPF_PROG_QUERY: libc::c_int = 16;
    const BPF_TCX_INGRESS: u32 = 46;
    /// The member `query` of `union bpf_attr`.
    #[repr(C, align(8))]
    #[derive(Default)]
    struct Query {
        interface: u32,
        attach_type: u32,
        query_flags: u32,
        attach_flags: u32,
        /// Null: only the number of programs is requested.
        programs: u64,
        count: u32,
        padding: u32,
        others: [u64; 4],
    }
    let mut query = Query {
        interface,
        attach_type: BPF_TCX_INGRESS,
        ..Query::default()
    };
    // SAFETY: pointer and length describe `query`, which the kernel reads and writes; its other pointers are null.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_PROG_QUERY,
            std::ptr::from_mut(&mut query),
            size_of::<Query>(),
        )
    };
    check(result as libc::c_int).map(|()| query.count)
}
