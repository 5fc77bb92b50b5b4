import { AppError } from '@weighbridge/errors';

const OF_PRICE = /(^|\.)(\w+_price|price|tool_prices)(\.|$)/;
const SHAPE =
  'A price is {"input_price": AMOUNT, "output_price": AMOUNT}, each per million tokens, and $0.15 is the amount {"currency_code": "USD", "units": 0, "nanos": 150000000}.';

/** Adds the right shape to an error about the shape of a price: no one guesses it. */
export function withPriceShape(error: unknown): unknown {
  if (!(error instanceof AppError) || error.kind !== 'invalid_request') return error;
  const { kind, code, message, param, details, headers } = error;
  if (code !== 'invalid_request' || param === undefined || !OF_PRICE.test(param)) return error;
  return new AppError(kind, code, `${message} ${SHAPE}`, { param, details, headers, cause: error.cause });
}
