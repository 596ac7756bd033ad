// Implements WireNotice.
#include "distributed/comm/notice.h"

namespace capstan::distributed {

WireNotice::WireNotice(const Notice& notice)
    : sequence(notice.sequence),
      rank(notice.rank),
      kind(notice.kind),
      cause(notice.cause),
      explains(notice.explains),
      name_rank(notice.name_rank),
      text{},
      records{} {
  notice.text.copy(text, kNoticeText);
  notice.records.copy(records, kNoticeFolder);
}

Notice WireNotice::notice() const {
  return {kind, rank, sequence, cause, explains, name_rank, text, records};
}

}  // namespace capstan::distributed
