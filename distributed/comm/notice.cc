// Implements WireNotice.
#include "distributed/comm/notice.h"

namespace capstan::distributed {

WireNotice::WireNotice(const Notice& notice)
    : sequence(notice.sequence),
      rank(notice.rank),
      missing(notice.missing),
      kind(notice.kind),
      cause(notice.cause),
      explains(notice.explains),
      name_rank(notice.name_rank),
      gone(notice.gone),
      text{},
      call{},
      records{} {
  notice.text.copy(text, kNoticeText);
  notice.call.copy(call, kNoticeCall);
  notice.records.copy(records, kNoticeFolder);
}

Notice WireNotice::notice() const {
  return {kind, rank, sequence, cause, explains, name_rank, missing, gone, text, call, records};
}

}  // namespace capstan::distributed
