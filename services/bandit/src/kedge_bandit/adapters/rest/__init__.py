"""REST as a transcoding of the gRPC services: routes, errors and OpenAPI all follow from the proto descriptors."""
