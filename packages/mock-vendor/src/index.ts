export { type Bedrock, type BedrockOptions, startBedrock } from './bedrock/bedrock.ts';
export type { AwsAccount } from './bedrock/sigV4.ts';
export { type MockVendor, type MockVendorOptions, startMockVendor } from './mockVendor.ts';
export {
  type AuthorizationServer,
  type AuthorizationServerOptions,
  startAuthorizationServer,
} from './oauth/authorizationServer.ts';
export { startTokenGateway, type TokenGateway } from './oauth/tokenGateway.ts';
export type { BillEntry } from './records/bill.ts';
export type { RecordedRequest } from './records/recorder.ts';
export type { VendorTraits } from './shared/traits.ts';
export type { VendorPrice, VendorRates } from './shared/vendorPrice.ts';
