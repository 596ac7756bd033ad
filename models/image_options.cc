#include "models/image_options.h"

#include "models/option_checks.h"

namespace capstan::models {

void list(ImageOptions& o, OptionReader& reader) {
  reader.group("Model").add("--model", o.model, "mlp or lenet");
  reader.group("Data")
      .add("--data", o.data, "Folder of the four IDX files, plain or gzip")
      .of_rank();  // a machine may keep its copy elsewhere
  list(static_cast<TrainOptions&>(o), reader);
}

void check(const ImageOptions& o) {
  require_choice("--model", o.model, {"mlp", "lenet"});
  check(static_cast<const TrainOptions&>(o));
}

}  // namespace capstan::models
