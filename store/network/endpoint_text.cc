#include "store/network/endpoint_text.h"

#include "distrun/store_address.h"

namespace distrun {

using boost::asio::ip::tcp;

tcp::endpoint unmapped(const tcp::endpoint& endpoint) {
  if (!endpoint.address().is_v6() || !endpoint.address().to_v6().is_v4_mapped()) return endpoint;
  return {boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, endpoint.address().to_v6()),
          endpoint.port()};
}

std::string text_of(const tcp::endpoint& endpoint) {
  const tcp::endpoint plain = unmapped(endpoint);
  return StoreAddress{plain.address().to_string(), plain.port()}.text();
}

}  // namespace distrun
