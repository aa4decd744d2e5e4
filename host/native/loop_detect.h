// Detections of a run on the words where the accelerator left them.
#ifndef CNNA_LOOP_DETECT_H
#define CNNA_LOOP_DETECT_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cnna_host.h"
#include "loop_jobs.h"

namespace cnna {

// Whether a detector fits a program, and its job has room for the detections of each image. CNNA_OK, or why not.
int takes(const Program &program, const cnna_job &job);

// Fills a job's detections. Head tensors are read where they lie, if that is cheaper: others become dense planes.
//
// Lines are invalidated before they are read: whole blocks where a scan reads every cell, else the words of a cell that it stops at.
int detect(const Program &program, const Job &job, const cnna_cache &cache);

}  // namespace cnna

#endif
