"""The boards by name, each as a function that builds it."""

from deploy.observability.boards import divergence, policy, safety, serving, tenants

BOARDS = {
    "divergence": divergence.board,
    "policy": policy.board,
    "safety": safety.board,
    "serving": serving.board,
    "tenants": tenants.board,
}
