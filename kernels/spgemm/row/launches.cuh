// The launches of row_spgemm over the tasks of its classes: one launch per class, or one for the
// tasks of all classes where a product is small. See kernels/spgemm/row/schedule.hpp.
#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>

#include "formats/base/check.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/spgemm/row/description.cuh"
#include "kernels/spgemm/row/joint.hpp"
#include "kernels/spgemm/row/small.cuh"
#include "kernels/spgemm/row/steps.cuh"

namespace tessera::row_spgemm {

/// Sorted tasks of one class.
struct Batch {
  const SortedTask* sorted;
  int count;
  const Task* tasks;

  /// Past the last, a task without a number and without nonzeros.
  __device__ SortedTask at(int number) const {
    return number < count ? sorted[number] : SortedTask{};
  }
  __device__ Task task(const SortedTask& of) const { return of.id < 0 ? Task{} : tasks[of.id]; }
};

/// The launch of a class whose groups have `bytes` of shared memory for marks and sums.
template <class Group>
constexpr GroupLaunch group_launch(int bytes) {
  return {Group::kLanes, bytes};
}
template <class Group>
constexpr int kThreadsOf = group_launch<Group>(0).threads();

/// A group's number in its thread block, and the number of its task in the class.
struct GroupPlace {
  int group, task;
};
/// The place of this thread's group in a launch of one class.
template <class Group>
__device__ GroupPlace place_in_class() {
  const GroupLaunch launch = group_launch<Group>(0);
  const int group = launch.group_of(static_cast<int>(threadIdx.x));
  return {group, launch.task_of(static_cast<int>(blockIdx.x), group)};
}

/// The task of this thread's group, and the group's shared memory.
template <class Group>
struct GroupTask {
  __device__ GroupTask(const Batch& batch, int bytes, unsigned char* shared,
                       GroupPlace place = place_in_class<Group>()) {
    const GroupLaunch launch = group_launch<Group>(bytes);
    sorted = batch.at(place.task);
    task = batch.task(sorted);
    unsigned char* memory = shared + place.group * launch.group_bytes();
    staged = reinterpret_cast<Segment*>(memory);
    bitmap = memory + launch.segment_bytes();
  }

  SortedTask sorted;
  Task task;
  Segment* staged;        // [lanes of the group]
  unsigned char* bitmap;  // where the bitmap begins
};

/// Calls launch.operator()<Group, Bitmap>(batch, bytes, stream) for the tasks of a class, or
/// launch_small.operator()<lanes>(batch, stream) if they are small.
template <bool kWithRanks, int kClass = 0, class Launch, class LaunchSmall>
void launch_class(int of, const Batch& batch, cudaStream_t stream, const Launch& launch,
                  const LaunchSmall& launch_small) {
  if constexpr (kClass < kClasses) {
    if (of != kClass)
      return launch_class<kWithRanks, kClass + 1>(of, batch, stream, launch, launch_small);
    if constexpr (kClass < kSmallSizes) {
      launch_small.template operator()<(kLeastLanes << kClass)>(batch, stream);
    } else {
      constexpr GroupLaunch kLaunch = launch_of(kClass);
      using Lanes = Group<kLaunch.lanes>;
      if constexpr (kClass < kFirstWords)
        launch.template operator()<Lanes, WholeBitmap<Lanes, kWithRanks>>(batch, kLaunch.bytes,
                                                                          stream);
      else
        launch.template operator()<Lanes, WordsBitmap<Lanes, kWithRanks>>(batch, kLaunch.bytes,
                                                                          stream);
    }
  }
}

/// Lets a kernel have that much dynamic shared memory.
template <class Kernel>
void raise_shared_limit(Kernel kernel, int bytes) {
  constexpr int kDefaultLimit = 48 << 10;
  if (bytes > kDefaultLimit)
    cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
               "raising the limit of shared memory");
}

/// Launches a kernel for the tasks of one class.
template <class Group, class Kernel, class... Arguments>
void launch_groups(Kernel kernel, int count, int bytes, cudaStream_t stream,
                   const Arguments&... arguments) {
  const GroupLaunch launch = group_launch<Group>(bytes);
  raise_shared_limit(kernel, launch.shared_bytes());
  kernel<<<static_cast<unsigned>(launch.thread_blocks(count)), launch.threads(),
           static_cast<std::size_t>(launch.shared_bytes()), stream>>>(arguments...);
  cuda_check(cudaGetLastError(), "launching row_spgemm");
}

/// The same for small tasks.
template <int kLanes, class Kernel, class... Arguments>
void launch_small_groups(Kernel kernel, int count, cudaStream_t stream,
                         const Arguments&... arguments) {
  kernel<<<grid_of(small_launch(kLanes), count), kGroupThreads, 0, stream>>>(arguments...);
  cuda_check(cudaGetLastError(), "launching row_spgemm");
}

/// Calls visit.operator()<Group, Bitmap>(batch, bytes, place) for the class of this thread block,
/// or visit_small.operator()<lanes>(batch, number of the task) if its tasks are small. `all` holds
/// the sorted tasks of all classes.
template <bool kWithRanks, class Visit, class VisitSmall>
__device__ void visit_joint_class(const JointLaunch& launch, const Batch& all, const Visit& visit,
                                  const VisitSmall& visit_small) {
  int block = static_cast<int>(blockIdx.x), i = 0;
  while (block >= launch.classes[i].blocks) block -= launch.classes[i++].blocks;
  const JointClass& mine = launch.classes[i];
  const Batch batch{all.sorted + mine.first, mine.count, all.tasks};
  const int thread = static_cast<int>(threadIdx.x);
  const auto visit_groups = [&]<class Lanes>() {
    const int group = thread / Lanes::kLanes;
    const GroupPlace place{group, group < mine.groups ? block * mine.groups + group : INT_MAX};
    if (is_words_class(mine.of))
      visit.template operator()<Lanes, WordsBitmap<Lanes, kWithRanks>>(batch, mine.bytes, place);
    else
      visit.template operator()<Lanes, WholeBitmap<Lanes, kWithRanks>>(batch, mine.bytes, place);
  };
  const auto number = [&](int lanes) { return block * mine.groups + thread / lanes; };
  if (mine.of == 0)
    visit_small.template operator()<kLeastLanes>(batch, number(kLeastLanes));
  else if (mine.of == 1)
    visit_small.template operator()<2 * kLeastLanes>(batch, number(2 * kLeastLanes));
  else if (mine.of < kSmallSizes)
    visit_small.template operator()<kMostLanes>(batch, number(kMostLanes));
  else if (is_block_class(mine.of))
    visit_groups.template operator()<Group<kJointThreads>>();
  else
    visit_groups.template operator()<Group<kWarpLanes>>();
}

/// Launches a kernel for the tasks of all classes of a joint launch, with `more` thread blocks
/// after theirs.
template <class Kernel, class... Arguments>
void launch_jointly(Kernel kernel, const JointLaunch& launch, unsigned more, cudaStream_t stream,
                    const Arguments&... arguments) {
  raise_shared_limit(kernel, launch.shared_bytes);
  kernel<<<static_cast<unsigned>(launch.blocks) + more, kJointThreads,
           static_cast<std::size_t>(launch.shared_bytes), stream>>>(launch, arguments...);
  cuda_check(cudaGetLastError(), "launching row_spgemm");
}

}  // namespace tessera::row_spgemm
