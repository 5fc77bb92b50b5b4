// Loaded into the product first (`node --import`): takes the bound of one field away, as a table would lack it.
import { OPERATIONS } from '@weighbridge/data-plane/tables';

for (const { requestFields } of OPERATIONS) {
  if (requestFields.service_tier) delete requestFields.service_tier.bound;
}
