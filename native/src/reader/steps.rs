//! Values: the tokens that a line is predicted to have.

/// Where the value of a token goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Sparse(u32),
    Dense(u32),
    Unknown(u32),
}

/// A predicted token: its first bytes, up to and including the colon.
#[derive(Clone, Copy)]
pub struct Step {
    want: u128,
    mask: u128,
    pub length: usize,
    pub target: Target,
}

impl Step {
    /// No token begins with a newline. The last step is this one, so that nobody goes on behind it.
    pub const NEVER: Self = Self { want: b'\n' as u128, mask: 0xff, length: 0, target: Target::Unknown(u32::MAX) };
    /// Names that do not fit into 16 bytes with their colon are never predicted.
    pub const LONGEST: usize = 16;

    pub fn new(name: &[u8], target: Target) -> Self {
        let length = name.len() + 1;
        if length > Self::LONGEST {
            return Self { length, target, ..Self::NEVER };
        }
        let mut bytes = [0; 16];
        bytes[..name.len()].copy_from_slice(name);
        bytes[name.len()] = b':';
        let mask = if length == 16 { u128::MAX } else { (1 << (8 * length)) - 1 };
        Self { want: u128::from_le_bytes(bytes), mask, length, target }
    }

    /// SAFETY: sixteen bytes must be readable at `from`.
    #[inline(always)]
    pub unsafe fn matches(&self, from: *const u8) -> bool {
        // SAFETY: the caller's promise.
        let bytes = u128::from_le(unsafe { from.cast::<u128>().read_unaligned() });
        (bytes ^ self.want) & self.mask == 0
    }

    /// Sixteen bytes, and which of their bits a token must have.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub fn wanted(&self) -> (&u128, &u128) {
        (&self.want, &self.mask)
    }
}
