//! Preference for machines with a task's images. (Kubernetes' ImageLocality.)

use crate::framework::plugin::{Reads, Score, Tasks, lanes};
use crate::plugins::kube::normalize::POINT;
use omega_cellstate::{BLOCK, Block};

/// Score: prefers machines with more bytes of the task's images. An image that few machines have counts less, so that
/// its tasks do not all go to these machines.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImageLocality;

/// Images with fewer bytes in total give no point, because they are pulled in a moment. Both bounds are those of
/// Kubernetes.
const BYTES_MIN: i64 = 23 << 20;

/// Upper bound of the counted bytes for each container.
const BYTES_MAX: i64 = 1000 << 20;

impl Score for ImageLocality {
    fn name(&self) -> &'static str {
        "image_locality"
    }

    /// The result also depends on the number of machines with an image.
    fn reads(&self) -> Reads {
        Reads::DESCRIPTION | Reads::OTHER_DESCRIPTIONS
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        tasks.group.images.iter().any(|image| !tasks.view.image_holders(image).is_empty())
    }

    fn score(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64, scores: &mut [i32; BLOCK]) {
        let first = block.first_row() as u32;
        let machines = tasks.view.machine_count() as f64;
        let mut bytes = [0i64; BLOCK];
        for image in &tasks.group.images {
            let holders = tasks.view.image_holders(image);
            let spread = holders.len() as f64 / machines;
            let from = holders.partition_point(|holder| holder.row < first);
            let here =
                holders[from..].iter().take_while(|holder| holder.row < first + BLOCK as u32);
            for holder in here {
                bytes[(holder.row - first) as usize] += (holder.bytes as f64 * spread) as i64;
            }
        }
        let most = BYTES_MAX * tasks.group.images.len() as i64;
        for lane in lanes(among) {
            let bytes = bytes[lane].clamp(BYTES_MIN, most);
            scores[lane] = (100 * (bytes - BYTES_MIN) / (most - BYTES_MIN)) as i32 * POINT;
        }
    }
}
