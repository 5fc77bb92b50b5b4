/** A message of AWS without the ids of accounts, keys and roles: callers are told what happened, not whose account it is. */
export function withoutAwsAccount(message: string): string {
  return message
    .replaceAll(/\barn:aws[\w-]*:(iam|sts):[^\s'"`,)]*/g, '…')
    .replaceAll(/\b\d{12}\b/g, '…')
    .replaceAll(/\b(AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b/g, '…');
}
