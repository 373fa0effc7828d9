// Every section, in reading order. To add one: write its function in a file of this folder, declare
// it here and name it in a table.
#pragma once

#include <array>

#include "experiments/report/section.h"

namespace assay {

Section verdicts_section(const Report& report);
Section contrasts_section(const Report& report);
Section claims_section(const Report& report);
Section roofline_section(const Report& report);
Section memory_section(const Report& report);
Section ranks_section(const Report& report);
Section control_section(const Report& report);
Section alarms_section(const Report& report);
Section missing_section(const Report& report);
Section plan_notes_section(const Report& report);
Section shape_warnings_section(const Report& report);
Section claim_errors_section(const Report& report);
Section launches_section(const Report& report);
Section events_section(const Report& report);
Section environment_section(const Report& report);

inline constexpr std::array kReportSections{verdicts_section,
                                            contrasts_section,
                                            claims_section,
                                            alarms_section,
                                            missing_section,
                                            plan_notes_section,
                                            shape_warnings_section,
                                            roofline_section,
                                            memory_section,
                                            ranks_section,
                                            control_section,
                                            claim_errors_section,
                                            launches_section,
                                            events_section,
                                            environment_section};

// One comparison of a cell.
struct ComparisonPlace {
  const Report& report;
  std::size_t cell_index, index;

  const CellReport& cell() const { return report.cells[cell_index]; }
  const Comparison& comparison() const { return cell().comparisons[index]; }
};

Section reasons_section(const ComparisonPlace& place);
Section measurement_section(const ComparisonPlace& place);
Section memory_parts_section(const ComparisonPlace& place);
Section comparison_claims_section(const ComparisonPlace& place);
Section gates_section(const ComparisonPlace& place);
Section excluded_pairs_section(const ComparisonPlace& place);

// Of a cell as a whole.
Section cell_roofline_section(const Report& report, std::size_t cell);

inline constexpr std::array kCellSections{cell_roofline_section};

inline constexpr std::array kComparisonSections{reasons_section,
                                                measurement_section,
                                                memory_parts_section,
                                                comparison_claims_section,
                                                gates_section,
                                                excluded_pairs_section};

} // namespace assay
