/** Ends a command that has printed all it has to say. */
export class ExitCode extends Error {
  override readonly name = 'ExitCode';
  readonly code: 1 | 3;

  constructor(code: 1 | 3) {
    super(`exit code ${code}`);
    this.code = code;
  }
}
