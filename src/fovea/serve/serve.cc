// `fovea serve`: the threads of the network, of the engines, and of the dialects.
#include <exception>
#include <iostream>
#include <thread>

#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/serve/model_engines.h"
#include "fovea/serve/routes.h"
#include "fovea/serve/serve_options.h"
#include "fovea/serve/server.h"

namespace fovea::serve {
namespace {

ServerOptions server_options(const ServeOptions& options) {
  ServerOptions server;
  server.host = options.host;
  server.port = options.port;
  server.timeout = options.timeout;
  server.read_timeout = options.read_timeout;
  server.max_connections = options.max_connections;
  return server;
}

}  // namespace

void run_serve(const ServeOptions& options) {
  const ApiKeys keys(options.api_key);
  Routes routes(options, keys, [&options](const ModelPlace& place) { return load_engine(place, options); });
  Server server(server_options(options), routes);
  std::cout << server.address() << std::endl;
  log::info(cat("listening on ", server.address(), "; loading the models"));
  std::exception_ptr failure;
  std::thread engines([&] {
    try {
      routes.batcher().run();
    } catch (...) {
      failure = std::current_exception();
      server.stop_at_once();
    }
  });
  server.run();
  routes.batcher().stop();
  engines.join();
  routes.finish();
  if (failure) std::rethrow_exception(failure);
  log::info("stopped");
}

}  // namespace fovea::serve
