// Who acts. What a principal may do is access/'s business.

export interface Principal {
  readonly name: string;
}
